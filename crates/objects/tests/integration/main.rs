//! Local objects from outside: datatypes, groups, operators, attributes, info.

mod attribute_callbacks;
mod datatype_typemap;
mod group_sets;
mod info_pairs;
mod op_kernels;
mod op_objects;
