//! The semantics layer from outside: collectives as schedules and in shared areas, datatypes,
//! groups, operators, attributes.

mod attribute_callbacks;
mod collective_common;
mod collective_inter;
mod collective_movement;
mod collective_network;
mod collective_node;
mod collective_reductions;
mod collective_two_level;
mod datatype_typemap;
mod group_sets;
mod info_pairs;
mod op_kernels;
mod op_objects;
