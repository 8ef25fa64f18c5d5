"""Calls that are a method of the library, and nothing else: their exports are written from this table.

A line has the name of a call and a Rust expression of its parameters; the parameters before `=` are where the results go.
An expression ends with `?` where it can fail. In it a handle stands for its object, a `const char *` for a string, an array
for its elements; `FORM` says which of the call's two forms it is; `.raw()` keeps a handle, and a `usize` or a pointer is passed as it is. `handle -> function` frees the object
of a handle, which becomes null. A buffer with its count and datatype is `UserElements` by the name of the buffer. What else a line names is in `crates/abi/src/method.rs`, for the tools interface in
`crates/abi/src/tool.rs`, or in the shims of attributes, buffers and topologies.
"""

from __future__ import annotations

import re

from api import Function, Param

METHODS = """
Comm_compare                result = comm1.compare(&comm2)
Comm_group                  group = comm.group().clone()
Comm_test_inter             flag = comm.is_inter()
Comm_rank                   rank = with_comm(comm.raw(), |on| Ok(on.rank()))?
Comm_size                   size = with_comm(comm.raw(), |on| Ok(on.size()))?
Comm_get_parent             parent = dynamic::parent()?
Comm_create_errhandler      errhandler = errhandler::of_comm(comm_errhandler_fn, "comm_errhandler_fn")?
Comm_remote_size            size = comm.remote_size()?
Comm_remote_group           group = comm.remote_group()?
Comm_dup                    newcomm = comm.duplicate(None)?
Comm_dup_with_info          newcomm = comm.duplicate(Some(&info))?
Comm_create                 newcomm = comm.create(&group)?
Comm_create_group           newcomm = comm.create_group(&group, tag)?
Comm_split                  newcomm = comm.split(color, key)?
Comm_split_type             newcomm = comm.split_type(split_type, key, &info)?
Comm_set_name               comm.set_name(&comm_name)
Comm_set_info               comm.set_info(&info)
Comm_get_info               info_used = comm.info()
Comm_set_errhandler         comm.set_errhandler(errhandler)?
Comm_get_errhandler         errhandler = comm.errhandler()
Comm_set_attr               comm.set_attribute(comm_keyval, attribute_val.expose_provenance())?
Comm_delete_attr            comm.delete_attribute(comm_keyval)?
Attr_put                    comm.set_attribute(keyval, attribute_val.expose_provenance())?
Attr_delete                 comm.delete_attribute(keyval)?
Intercomm_create            newintercomm = local_comm.create_inter(local_leader, peer_comm.raw(), remote_leader, tag)?
Intercomm_merge             newintracomm = intercomm.merge(high != 0)?
Comm_idup                   newcomm, request = (comm.duplicate_at_once(None)?, Request::SENT)
Comm_idup_with_info         newcomm, request = (comm.duplicate_at_once(Some(&info))?, Request::SENT)
Comm_get_name               comm_name = name_of(comm.raw(), (c::COMM_NULL, "MPI_COMM_NULL"), || Ok(comm.name()))?
Comm_call_errhandler        raise::call(ErrorTarget::Comm(comm.handle()), errorcode)?
Comm_free                   comm -> Comm::free
Comm_disconnect             comm -> Comm::disconnect
Close_port                  dynamic::close_port(&port_name)?
Publish_name                dynamic::publish_name(&service_name, &port_name)?
Unpublish_name              dynamic::unpublish_name(&service_name, &port_name)?

Group_size                  size = group.size()
Group_rank                  rank = group.rank_of(process::engine()?.rank())
Group_compare               result = group1.compare(&group2).constant()
Group_union                 newgroup = group1.union(&group2)
Group_intersection          newgroup = group1.intersection(&group2)
Group_difference            newgroup = group1.difference(&group2)
Group_incl                  newgroup = group.incl(ranks)?
Group_excl                  newgroup = group.excl(ranks)?
Group_range_incl            newgroup = group.range_incl(ranges)?
Group_range_excl            newgroup = group.range_excl(ranges)?
Group_translate_ranks       ranks2 = group1.translate_ranks(ranks1, &group2)?
Group_free                  group -> Group::free

Session_get_num_psets       npset_names = session.process_sets(&info).len()
Session_create_errhandler   errhandler = errhandler::of_session(session_errhandler_fn, "session_errhandler_fn")?
Session_get_info            info_used = session.info()
Session_get_pset_info       info = session.process_set_info(&pset_name)?
Session_set_errhandler      session.set_errhandler(errhandler)?
Session_get_errhandler      errhandler = session.errhandler()
Session_call_errhandler     raise::call(ErrorTarget::Session(session.handle()), errorcode)?

Win_create                  win = create_window(&comm, &WindowSpec::Create { memory: window_memory(base, size), bytes: size as i64, unit: disp_unit }, &info)?
Win_allocate                address(baseptr), win = create_window(&comm, &WindowSpec::Allocate { bytes: size as i64, unit: disp_unit }, &info).map(|window| (window.predefined().base, window))?
Win_allocate_shared         address(baseptr), win = create_window(&comm, &WindowSpec::Shared { bytes: size as i64, unit: disp_unit }, &info).map(|window| (window.predefined().base, window))?
Win_create_dynamic          win = create_window(&comm, &WindowSpec::Dynamic, &info)?
Win_attach                  attach_to_window(win.raw(), &window_memory(base, size), size as i64)?
Rput                        request = rput(win.raw(), &origin_addr.view_as(&ORIGIN)?, &target_rank.range()?)?
Rget                        request = rget(win.raw(), &origin_addr.view_as(&ORIGIN)?, &target_rank.range()?)?
Raccumulate                 request = rma::accumulate(origin_addr, target_rank, op.raw(), win.raw(), AccumulateCompletion::ByRequest)?
Get_accumulate              rma::get_accumulate((origin_addr, result_addr), target_rank, op.raw(), win.raw(), AccumulateCompletion::OnReturn).map(drop)?
Rget_accumulate             request = rma::get_accumulate((origin_addr, result_addr), target_rank, op.raw(), win.raw(), AccumulateCompletion::ByRequest)?
Win_create_errhandler       errhandler = errhandler::of_win(win_errhandler_fn, "win_errhandler_fn")?
Win_get_group               group = win.group()
Win_set_name                win.set_name(&win_name)
Win_set_info                win.set_info(&info)
Win_get_info                info_used = win.info()
Win_set_errhandler          win.set_errhandler(errhandler)?
Win_get_errhandler          errhandler = win.errhandler()
Win_call_errhandler         raise::call(ErrorTarget::Win(win.handle()), errorcode)?
Win_get_name                win_name = name_of(win.raw(), (c::WIN_NULL, "MPI_WIN_NULL"), || Ok(win.name()))?
Win_shared_query            size, disp_unit, address(baseptr) = win.shared_query(rank)?
Win_set_attr                win.set_attribute(win_keyval, attribute_val.expose_provenance())?
Win_delete_attr             win.delete_attribute(win_keyval)?
Win_detach                  detach_window(win.raw(), base.addr())?

Win_fence                   with_window(win.raw(), |window| window.fence(assert))?
Win_start                   with_window(win.raw(), |window| window.start(&group, assert))?
Win_complete                with_window(win.raw(), Window::complete)?
Win_post                    with_window(win.raw(), |window| window.post(&group, assert))?
Win_wait                    with_window(win.raw(), Window::wait)?
Win_test                    flag = with_window(win.raw(), Window::test)?
Win_lock                    with_window(win.raw(), |window| window.lock(lock_type, rank, assert))?
Win_unlock                  unlock_window(win.raw(), rank)?
Win_flush                   with_window(win.raw(), |window| window.flush(Some(rank), FlushedSide::Both))?
Win_flush_local             with_window(win.raw(), |window| window.flush(Some(rank), FlushedSide::Origin))?
Win_lock_all                with_window(win.raw(), |window| window.lock_all(assert))?
Win_unlock_all              with_window(win.raw(), Window::unlock_all)?
Win_flush_all               with_window(win.raw(), |window| window.flush(None, FlushedSide::Both))?
Win_flush_local_all         with_window(win.raw(), |window| window.flush(None, FlushedSide::Origin))?
Win_sync                    with_window(win.raw(), Window::sync)?

Probe                       status = with_comm(comm.raw(), |on| messages::probe(on, source, tag))?
Iprobe                      flag, status_if_found(status) = with_comm(comm.raw(), |on| messages::iprobe(on, source, tag)).map(|found| (found.is_some(), found))?
Improbe                     flag, IfFound(message), status_if_found(status) = with_comm(comm.raw(), |on| messages::improbe(on, source, tag)).map(Option::unzip).map(|(message, status)| (message.is_some(), message, status))?
Mprobe                      message, status = with_comm(comm.raw(), |on| messages::mprobe(on, source, tag))?
Isendrecv                   request = persistent::isendrecv(&comm, &sendbuf.view_as(&SEND)?, dest, sendtag, &recvbuf.view_as(&RECEIVE)?, source, recvtag)?
Isendrecv_replace           request = persistent::isendrecv_replace(&comm, &buf.view()?, dest, sendtag, source, recvtag)?
Send_init                   request = persistent::send_init(&comm, Mode::Standard, buf.view()?, dest, tag)?
Ssend_init                  request = persistent::send_init(&comm, Mode::Synchronous, buf.view()?, dest, tag)?
Rsend_init                  request = persistent::send_init(&comm, Mode::Ready, buf.view()?, dest, tag)?
Recv_init                   request = persistent::recv_init(&comm, buf.view()?, source, tag)?
Psend_init                  request = psend_init(&comm, partitions_at(buf, partitions, count, datatype.raw()), partitions, count, datatype.raw(), dest, tag)?
Precv_init                  request = precv_init(&comm, partitions_at(buf, partitions, count, datatype.raw()), partitions, count, datatype.raw(), source, tag)?
Bsend                       with_comm(comm.raw(), |on| buffered::bsend(on, &buf.view()?, dest, tag))?
Ibsend                      request = with_comm(comm.raw(), |on| buffered::bsend(on, &buf.view()?, dest, tag)).map(|()| Request::SENT)?
Bsend_init                  request = persistent::bsend_init(&comm, buf.view()?, dest, tag)?

Buffer_attach               buffered::attach(BufferOwner::Process, buffer.expose_provenance(), size)?
Comm_attach_buffer          buffered::attach(BufferOwner::comm(&comm), buffer.expose_provenance(), size)?
Session_attach_buffer       buffered::attach(BufferOwner::Session(session.handle()), buffer.expose_provenance(), size)?
Buffer_detach               buffer::detach(BufferOwner::Process, buffer_addr, size)?
Comm_detach_buffer          buffer::detach(BufferOwner::comm(&comm), buffer_addr, size)?
Session_detach_buffer       buffer::detach(BufferOwner::Session(session.handle()), buffer_addr, size)?
Buffer_flush                buffered::flush(BufferOwner::Process)?
Comm_flush_buffer           buffered::flush(BufferOwner::comm(&comm))?
Session_flush_buffer        buffered::flush(BufferOwner::Session(session.handle()))?
Buffer_iflush               request = buffered::iflush(BufferOwner::Process)?
Comm_iflush_buffer          request = buffered::iflush(BufferOwner::comm(&comm))?
Session_iflush_buffer       request = buffered::iflush(BufferOwner::Session(session.handle()))?

Type_contiguous             newtype = in_form(Datatype::contiguous(count, &oldtype)?, FORM)?
Type_vector                 newtype = in_form(Datatype::vector(count, blocklength, stride, &oldtype)?, FORM)?
Type_create_hvector         newtype = in_form(Datatype::hvector(count, blocklength, stride, &oldtype)?, FORM)?
Type_indexed                newtype = in_form(Datatype::indexed(&array_of_blocklengths, &array_of_displacements, &oldtype)?, FORM)?
Type_create_hindexed        newtype = in_form(Datatype::hindexed(&array_of_blocklengths, &array_of_displacements, &oldtype)?, FORM)?
Type_create_indexed_block   newtype = in_form(Datatype::indexed_block(blocklength, &array_of_displacements, &oldtype)?, FORM)?
Type_create_hindexed_block  newtype = in_form(Datatype::hindexed_block(blocklength, &array_of_displacements, &oldtype)?, FORM)?
Type_create_struct          newtype = in_form(Datatype::create_struct(&array_of_blocklengths, &array_of_displacements, &array_of_types)?, FORM)?
Type_create_subarray        newtype = in_form(Datatype::subarray(&array_of_sizes, &array_of_subsizes, &array_of_starts, order, &oldtype)?, FORM)?
Type_create_darray          newtype = in_form(Datatype::darray(size, rank, &array_of_gsizes, array_of_distribs, array_of_dargs, array_of_psizes, order, &oldtype)?, FORM)?
Type_create_resized         newtype = in_form(Datatype::resized(&oldtype, lb, extent)?, FORM)?
Type_dup                    newtype = Datatype::dup(&oldtype)?
Type_create_f90_real        newtype = Datatype::f90_real(p, r)?
Type_create_f90_complex     newtype = Datatype::f90_complex(p, r)?
Type_create_f90_integer     newtype = Datatype::f90_integer(r)?
Type_match_size             datatype = match_size(typeclass, size)?
Type_get_value_index        pair_type = value_index(value_type.raw(), index_type.raw())?
Type_size                   size = datatype.size()
Type_size_x                 size = datatype.size()
Type_get_extent             lb, extent = (datatype.lb(), datatype.extent())
Type_get_extent_x           lb, extent = (datatype.lb(), datatype.extent())
Type_get_true_extent        true_lb, true_extent = (datatype.true_lb(), datatype.true_extent())
Type_get_true_extent_x      true_lb, true_extent = (datatype.true_lb(), datatype.true_extent())
Type_set_name               datatype.set_name(&type_name)
Type_get_name               type_name = name_of(datatype.raw(), (c::DATATYPE_NULL, "MPI_DATATYPE_NULL"), || Ok(datatype.name()))?
Type_set_attr               datatype.attributes().set(AttributeOwner::Type, datatype.handle(), type_keyval, attribute_val.expose_provenance())?
Type_delete_attr            datatype.attributes().delete(AttributeOwner::Type, datatype.handle(), type_keyval)?
Type_free                   datatype -> Datatype::free
Pack                        Exact(position) = Comm::resolve(comm.raw()).and_then(|_| pack::pack(inbuf, outbuf, outsize, position))?
Unpack                      Exact(position) = Comm::resolve(comm.raw()).and_then(|_| pack::unpack(inbuf, insize, position, outbuf))?
Pack_size                   Exact(size) = Comm::resolve(comm.raw()).and_then(|_| pack::size(incount, datatype.raw()))?
Pack_external               Exact(position) = pack::pack_external(&datarep, inbuf, outbuf, outsize, position)?
Unpack_external             Exact(position) = pack::unpack_external(&datarep, inbuf, insize, position, outbuf)?
Pack_external_size          Exact(size) = pack::external_size(&datarep, incount, datatype.raw())?
Get_address                 address = location
Op_free                     op -> Op::free
Op_commutative              commute = op.is_commutative()

Comm_create_keyval          attribute::create(AttributeOwner::Comm, comm_copy_attr_fn, comm_delete_attr_fn, comm_keyval, extra_state)?
Type_create_keyval          attribute::create(AttributeOwner::Type, type_copy_attr_fn, type_delete_attr_fn, type_keyval, extra_state)?
Win_create_keyval           attribute::create(AttributeOwner::Win, win_copy_attr_fn, win_delete_attr_fn, win_keyval, extra_state)?
Keyval_create               attribute::create(AttributeOwner::Comm, copy_fn, delete_fn, keyval, extra_state)?
Comm_free_keyval            attribute::free(AttributeOwner::Comm, comm_keyval)?
Type_free_keyval            attribute::free(AttributeOwner::Type, type_keyval)?
Win_free_keyval             attribute::free(AttributeOwner::Win, win_keyval)?
Keyval_free                 attribute::free(AttributeOwner::Comm, keyval)?

File_open                   fh = open_file(&comm, &filename, amode, &info)?
File_delete                 delete_file(&filename)?
File_set_size               fh.set_size(size)?
File_preallocate            fh.preallocate(size)?
File_get_size               size = fh.size()?
File_get_group              group = fh.group()
File_get_amode              amode = fh.amode()
File_set_info               fh.set_info(&info)?
File_get_info               info_used = fh.info()
File_set_view               fh.set_view(disp, &etype, &filetype, &datarep, &info)?
File_get_type_extent        extent = fh.type_extent(&datatype)?
File_get_byte_offset        disp = fh.byte_offset(offset)?
File_get_position           offset = fh.position()?
File_get_position_shared    offset = fh.shared_position()?
File_seek                   fh.seek(offset, whence)?
File_seek_shared            fh.seek_shared(offset, whence)?
File_set_atomicity          fh.set_atomicity(flag != 0)?
File_get_atomicity          flag = fh.atomicity()
File_sync                   fh.sync()?

Info_create                 info = Info::default()
Info_dup                    newinfo = info.duplicate()
Info_set                    Info::set(info.raw(), &key, &value)?
Info_delete                 Info::delete(info.raw(), &key)?
Info_get_nkeys              nkeys = info.len()
Info_get_valuelen           IfFound(valuelen), flag = info.get(&key).map(|value| (value.as_ref().map(String::len), value.is_some()))?
Info_free                   info -> Info::free

File_create_errhandler      errhandler = errhandler::of_file(file_errhandler_fn, "file_errhandler_fn")?
File_set_errhandler         File::set_errhandler_of(file.raw(), errhandler)?
File_get_errhandler         errhandler = File::errhandler_of(file.raw())?
File_call_errhandler        File::errhandler_of(fh.raw()).and_then(|_| raise::call(ErrorTarget::File(fh.handle()), errorcode))?
Errhandler_free             errhandler -> Errhandler::free
Error_string                string = raise::error_string(errorcode)?
Error_class                 errorclass = error_codes::class_of(errorcode)?
Add_error_class             errorclass = error_codes::add_class()
Add_error_code              errorcode = error_codes::add_code(errorclass)?
Add_error_string            error_codes::add_text(errorcode, &string)?
Remove_error_class          error_codes::remove_class(errorclass)?
Remove_error_code           error_codes::remove_code(errorcode)?
Remove_error_string         error_codes::remove_text(errorcode)?
Initialized                 flag = process::initialized()
Finalized                   flag = process::finalized()
Finalize                    init::finalize()?
Query_thread                provided = init::thread_level()?
Is_thread_main              flag = init::is_thread_main()?
Get_hw_resource_info        hw_info = hardware_resources()?
Get_version                 version, subversion = (c::VERSION, c::SUBVERSION)
Get_library_version         version = library_version()
Get_processor_name          name = node_name()
Grequest_complete           complete_generalized(request.raw())?
Request_free                request -> free_request

Test_cancelled              flag = status::read(status)?.cancelled()
Status_set_cancelled        status::write(status)?.set_cancelled(flag != 0)
Status_get_source           source = status::read(status)?.MPI_SOURCE
Status_set_source           status::write(status)?.MPI_SOURCE = source
Status_get_tag              tag = status::read(status)?.MPI_TAG
Status_set_tag              status::write(status)?.MPI_TAG = tag
Status_get_error            err = status::read(status)?.MPI_ERROR
Status_set_error            status::write(status)?.MPI_ERROR = err
Get_count                   count = datatype.count(status::read(status)?.bytes())
Get_elements                count = datatype.elements(status::read(status)?.bytes())
Get_elements_x              count = datatype.elements(status::read(status)?.bytes())
Status_set_elements         status::write(status)?.set_bytes(datatype.bytes_of_elements(count)?)
Status_set_elements_x       status::write(status)?.set_bytes(datatype.bytes_of_elements(count)?)

Topo_test                   status = comm.topology().map_or(c::UNDEFINED, Topology::kind)
Cart_create                 comm_cart = comm_old.create_cart(dims, &truths(periods)?, reordering(reorder))?
Cart_map                    newrank = comm.cart_map(dims, &truths(periods)?)?
Cartdim_get                 ndims = comm.cart()?.dims().len()
Cart_get                    dims, periods, coords = comm.cart_at_this_rank()?
Cart_coords                 coords = comm.cart()?.coords(comm.checked_rank(rank)?)
Cart_rank                   rank = comm.cart()?.rank(slice(coords, comm.cart()?.dims().len() as c_int, "coords", "ndims")?)?
Cart_sub                    newcomm = comm.cart_sub(&truths(slice(remain_dims, comm.cart()?.dims().len() as c_int, "remain_dims", "ndims")?)?)?
Cart_shift                  rank_source, rank_dest = comm.cart()?.shift(comm.rank(), direction, disp)?
Graph_create                comm_graph = comm_old.create_graph(index, topology::edges_of(index, edges)?, reordering(reorder))?
Graph_map                   newrank = comm.graph_map(index, topology::edges_of(index, edges)?)?
Graphdims_get               nnodes, nedges = (comm.graph()?.size(), comm.graph()?.edges().len())
Graph_get                   index, edges = (comm.graph()?.index().to_vec(), comm.graph()?.edges().to_vec())
Graph_neighbors_count       nneighbors = comm.graph()?.neighbors(comm.checked_rank(rank)?).len()
Graph_neighbors             neighbors = comm.graph()?.neighbors(comm.checked_rank(rank)?).to_vec()
Dist_graph_neighbors_count  indegree, outdegree, weighted = comm.dist_graph()?.counts()

T_enum_get_info             num, name = enumeration(enumtype.raw()).map(|e| (e.items.len(), &e.name))?
T_enum_get_item             value, name = (index, enumeration(enumtype.raw())?.item(index)?)
T_cvar_get_num              num_cvar = require().map(|()| cvars())?
T_cvar_get_info             name, verbosity, datatype, enumtype, desc, bind, scope = cvar_info(cvar_index).map(|v| (v.name, v.verbosity, v.value_type, v.enumeration, v.description, ObjectKind::None, v.scope))?
T_cvar_get_index            cvar_index = require().and_then(|()| ToolObjects::cvar_index(name))?
T_cvar_handle_alloc         handle, count = ToolObjects::cvar_handle(cvar_index)?
T_cvar_handle_free          handle -> ToolObjects::free_cvar_handle
T_pvar_get_num              num_pvar = require().map(|()| pvars())?
T_pvar_get_info             name, verbosity, var_class, datatype, enumtype, desc, bind, readonly, continuous, atomic = pvar_info(pvar_index).map(|v| (v.name, c::T_VERBOSITY_USER_BASIC, v.class, v.value_type, v.enumeration, v.description, v.bound_to, v.continuous, v.continuous, !v.continuous))?
T_pvar_get_index            pvar_index = require().and_then(|()| ToolObjects::pvar_index(name, var_class))?
T_pvar_session_create       pe_session = ToolObjects::open_session()?
T_pvar_session_free         pe_session -> ToolObjects::close_session
T_pvar_handle_alloc         handle, count = ToolObjects::pvar_handle(pe_session.raw(), pvar_index, |kind| bound_object(obj_handle, kind))?
T_pvar_handle_free          handle -> |handle| ToolObjects::free_pvar_handle(pe_session.raw(), handle)
T_pvar_start                ToolObjects::start_pvar(pe_session.raw(), handle.raw())?
T_pvar_stop                 ToolObjects::stop_pvar(pe_session.raw(), handle.raw())?
T_pvar_reset                ToolObjects::reset_pvar(pe_session.raw(), handle.raw())?
T_category_get_num          num_cat = require().map(|()| categories())?
T_category_get_info         name, desc, num_cvars, num_pvars, num_categories = category(cat_index).and_then(|own| category_members(cat_index).map(|m| (own.name, own.description, m.cvars.len(), m.pvars.len(), m.categories.len())))?
T_category_get_num_events   num_events = category_members(cat_index)?.events.len()
T_category_get_index        cat_index = require().and_then(|()| category_index(name))?
T_category_get_cvars        indices = category_members(cat_index)?.cvars
T_category_get_pvars        indices = category_members(cat_index)?.pvars
T_category_get_events       indices = category_members(cat_index)?.events
T_category_get_categories   indices = category_members(cat_index)?.categories
T_category_changed          update_number = require().map(|()| 0)?
T_source_get_num            num_sources = require().map(|()| sources())?
T_source_get_info           name, desc, ordering, ticks_per_second, max_ticks, info = source(source_index).map(|s| (s.name, s.description, s.order, 1_000_000_000_i64, MPI_Count::MAX, no_hints()))?
T_source_get_timestamp      timestamp = source_now(source_index)?
T_event_get_num             num_events = require().map(|()| events())?
T_event_get_index           event_index = require().and_then(|()| tool::event_index(name))?
T_event_handle_alloc        event_registration = check_hints(info.raw()).and_then(|()| ToolObjects::register(event_index, || bound_object(obj_handle, ObjectKind::Comm)))?
T_event_handle_set_info     ToolObjects::check_registration(event_registration.raw()).and_then(|()| check_hints(info.raw()))?
T_event_handle_get_info     info_used = ToolObjects::check_registration(event_registration.raw()).map(|()| no_hints())?
T_event_callback_set_info   ToolObjects::check_callback(event_registration.raw(), cb_safety).and_then(|()| check_hints(info.raw()))?
T_event_callback_get_info   info_used = ToolObjects::check_callback(event_registration.raw(), cb_safety).map(|()| no_hints())?
T_event_get_timestamp       event_timestamp = current_instance(event_instance.raw())?.ns
T_event_get_source          source_index = current_instance(event_instance.raw())?.source
"""

OBJECTS = {
    "MPI_Comm": "Comm",
    "MPI_Group": "Group",
    "MPI_Win": "Window",
    "MPI_Session": "Session",
    "MPI_Errhandler": "Errhandler",
    "MPI_Op": "Op",
    "MPI_File": "File",
}


def _file_accesses() -> list[str]:
    """The lines of all calls that read or write a file: their names say which way, where and by whom."""
    lines = []
    for verb in ("Read", "Write"):
        for place, position, by in (
            ("", "Individual", "Independent"),
            ("_all", "Individual", "Collective"),
            ("_at", "At(offset)", "Independent"),
            ("_at_all", "At(offset)", "Collective"),
            ("_shared", "Shared", "Independent"),
            ("_ordered", "Shared", "Collective"),
        ):
            name = f"File_{verb.lower()}{place}"
            how = f"(AccessDirection::{verb}, AccessPosition::{position}, Coordination::{by})"
            lines.append(f'{name} status = status_of(fh.transfer({how}, file::elements(buf), "MPI_{name}")?)')
            if place != "_ordered":
                started = f"File_i{verb.lower()}{place}"
                lines.append(f'{started} request = start_access(&fh, {how}, file::elements(buf), "MPI_{started}")?')
            if by == "Collective":
                split = f"SplitCall {{ direction: AccessDirection::{verb}, position: AccessPosition::{position} }}"
                lines.append(f"{name}_begin fh.begin_split({split}, file::elements(buf))?")
                ended = split.replace("At(offset)", "At(0)")
                lines.append(f"{name}_end status = status_of(fh.end_split({ended})?)")
    return lines


def table() -> dict[str, str]:
    """The expression of each call, by the name of its shim."""
    lines = (line.split(maxsplit=1) for line in METHODS.splitlines() + _file_accesses() if line)
    return {f"mpi_{name.lower()}": expression for name, expression in lines}


def call(expression: str, function: Function, taken: list[Param], arguments: list[str]) -> str:
    """The call of a method: `taken` are the parameters, `arguments` what the export has for each of them."""
    by_name = {param.name: (param, argument) for param, argument in zip(taken, arguments)}
    if freed := re.fullmatch(r"(\w+) -> (.+)", expression):
        if function.tool:
            return f"tool::free({by_name[freed[1]][1]}, {freed[2]})"
        return f'method::free({by_name[freed[1]][1]}, "{freed[1]}", {freed[2]})'
    results, body = re.fullmatch(r"(?:([\w(), ]+) = )?(.*)", expression).groups()
    body = body.replace("FORM", "CountForm::Large" if function.large else "CountForm::Plain")
    names = re.findall(r"\w+(?!\()\b", results or "")
    if missing := [name for name in names if name not in by_name]:
        raise SystemExit(f"methods.py: {function.name}: it has no parameter {missing[0]}")

    # Not a method, a path or what keeps its handle; the name of a module is followed by `::`.
    argument = re.compile(r"(?<![.:|\w])[a-z]\w*\b(?!\(|::|\.raw\(\))")
    given = [name for name in argument.findall(body) if name in by_name and name not in names]
    converted = {name: _converted(*by_name[name], by_name, function) for name in given}
    for name in names:
        # A place may also be read.
        body = re.sub(rf"(?<![.:|\w]){name}\b(?!\(|::)", by_name[name][1], body)
    bound = ""
    if len(given) > len(converted):
        # What the expression has several times is converted once, in the same order.
        bound = "".join(f"let {name} = {value}; " for name, value in converted.items() if value != name)
    else:
        body = argument.sub(lambda name: converted.get(name[0], name[0]), body)
    value = body.removesuffix("?") if body.endswith("?") else f"Ok({body})" if results else f"{{ {body}; Ok(()) }}"
    if bound:
        closure = f"|| {{ {bound}{value} }}"
    elif body.endswith("()?") and "." not in body:
        closure = body.removesuffix("()?")  # a function is one itself
    else:
        closure = f"|| {value}"
    if not results:
        return f"{'tool' if function.tool else 'method'}::perform({closure})"
    if function.tool:
        places = [_tool_place(result, by_name, len(names)) for result in names]
        place = places[0] if len(places) == 1 else f"({', '.join(places)})"
        return f"tool::give({place}, {closure})"
    places = [_place(result, by_name) for result in results.split(", ")]
    quoted = [f'"{name}"' for name in names]
    if len(places) == 1:
        return f"method::give({places[0]}, {quoted[0]}, {closure})"
    return f"method::give(({', '.join(places)}), ({', '.join(quoted)}), {closure})"


def _place(result: str, by_name: dict[str, tuple[Param, str]]) -> str:
    """Where a result goes; `result` is a parameter, or a function of one that makes the place of it."""
    if result not in by_name:
        return re.sub(r"(?<=\()\w+", lambda name: by_name[name[0]][1], result)
    param, argument = by_name[result]
    if param.base == "char":
        return f"Text({argument}, c::{param.length.removeprefix('MPI_')}, {by_name['resultlen'][1]})"
    if param.base == "MPI_Status":
        return f"StatusIfWanted({argument})"
    if param.length:
        return f'Array({argument}, {by_name[param.length][1]}, "{param.length}")'
    return argument


def _tool_place(result: str, by_name: dict[str, tuple[Param, str]], results: int) -> str:
    """Where a result of the tools interface goes: of several, only a new handle must be wanted."""
    param, argument = by_name[result]
    if param.base == "char":
        return f"SizedText({argument}, {by_name[f'{result}_len'][1]})"
    if param.length:
        return f"Indices({argument}, {by_name[param.length][1]})"
    if param.base.endswith(("_handle", "_session", "_registration")):
        return f"NewHandle({argument})"
    return argument if results == 1 else f"IfWanted({argument})"


def _converted(param: Param, argument: str, by_name: dict[str, tuple[Param, str]], function: Function) -> str:
    """An argument as expressions have it."""
    if param.callback or (param.depth == 0 and not param.base.startswith("MPI_")):
        return argument
    if param.depth == 0:
        handle = param.base
        if handle == "MPI_Datatype":
            return f'Datatype::resolve_as({argument}.raw(), "{param.name}")?'
        if handle == "MPI_Info":
            resolve = "resolve" if function.family == "info" else "resolve_hints"
            return f"Info::{resolve}({argument}.raw())?"
        return f"{OBJECTS[handle]}::resolve({argument}.raw())?" if handle in OBJECTS else argument
    if function.tool:
        return f"text({argument})?" if param.base == "char" else argument
    if param.name == "filename":
        return f'method::path({argument}, "filename")?'
    if param.base == "char" and param.const:
        return f'text({argument}, "{param.name}")?'
    if not param.length:
        return argument
    list_of = {"MPI_Datatype": "datatypes"}.get(param.base, "numbers" if argument.startswith("PolyArray") else "slice")
    return f'method::{list_of}({argument}, {by_name[param.length][1]}, "{param.name}", "{param.length}")?'
