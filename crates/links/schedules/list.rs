[
    ("allreduce-16384", include_str!("allreduce-16384.txt")),
    ("allreduce-16384-direct", include_str!("allreduce-16384-direct.txt")),
    ("allreduce-1024", include_str!("allreduce-1024.txt")),
    ("reduce-16384", include_str!("reduce-16384.txt")),
    ("bcast-65536", include_str!("bcast-65536.txt")),
    ("bcast-65536-direct", include_str!("bcast-65536-direct.txt")),
    ("allgather-4096", include_str!("allgather-4096.txt")),
    ("alltoall-1024", include_str!("alltoall-1024.txt")),
    ("alltoall-4096-direct", include_str!("alltoall-4096-direct.txt")),
    ("barrier", include_str!("barrier.txt")),
]
