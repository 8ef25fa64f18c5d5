/* The raw times from which `mica loggp` fits L, o_s, o_r, g and G between rank 0 and the last rank
 * (the ranks between them wait in a barrier). Methods: Culler, Liu, Martin, Yoshikawa, "Assessing
 * Fast Network Interfaces" (1996), a delay between sends; Kielmann, Bal, Verstoep, "Fast
 * Measurement of LogP Parameters for Message Passing Platforms" (2000), the overhead of a receive
 * whose message has arrived; Hoefler, Lichei, Rehm, "Low-Overhead LogGP Parameter Assessment for
 * Modern Interconnection Networks" (2007), a train of messages with one answer.
 *
 * All times are of rank 0, by MPI_Wtime, so no clocks are compared. The cost of a reading is
 * measured and taken off. A call and a delay are timed apart: a processor that executes out of
 * order would hide the one behind the other, but not behind the reading of the clock between. There
 * is no sleep and no other clock, so the program also measures a simulated machine.
 *
 * Arguments: --rounds N (15), --repeat N (100, fewer for long messages), --train N (16),
 * --smallest SIZE (1), --largest SIZE (256K): sizes double from 1K on, fewer below. Output: a line
 * `mica-loggp 1 RANKS TRAIN CLOCK-NS LIBRARY`, a line with the names of the columns, then a line
 * for each round and size; times in nanoseconds, each the median of the round's repetitions:
 *
 *     send         processor time of MPI_Isend and MPI_Wait, around a delay
 *     issue        of that MPI_Isend
 *     receive      processor time of MPI_Irecv and MPI_Wait, whose message arrives in a delay
 *     complete     of that MPI_Wait
 *     round_trip   from before MPI_Isend to the answer of the same size, receives posted before
 *     single       from before MPI_Isend to an empty answer
 *     train        the same for TRAIN messages, of which the last is answered
 *
 * A line `place RANK CORES HOST` for each rank follows the names: the processors that it may use, as
 * a list of ranges. The last line, `switches N MESSAGES`, says how often the two ranks that measure
 * lost their processors to another thread meanwhile (involuntary context switches, to which the
 * kernel counts yields): ranks that share a processor do so at nearly every message.
 *
 * Every message is checked: a stale buffer cannot pass for a fast one. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "bench_mpi.h"
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

enum { TAG = 3, MOST_TRAIN = 256, MOST_SIZES = 40, MOST_REPEAT = 10000, CLOCK_READINGS = 100 };

static int rank, last, is_end, train;
static double clock_cost; /* seconds of a reading of the clock */
static double loop_cost;  /* seconds of an iteration of the delay */
static char *out, *in;
static long number; /* of the message, for the check */
static double times[2][MOST_REPEAT];
static const MPI_Comm world = MPI_COMM_WORLD;

static MPI_Request send_to(int peer, long bytes, long stamp)
{
    MPI_Request request;
    bench_stamp(out, (size_t)bytes, stamp);
    MPI_Isend(out, (int)bytes, MPI_BYTE, peer, TAG, world, &request);
    return request;
}

static MPI_Request receive_from(int peer, char *to, long bytes)
{
    MPI_Request request;
    MPI_Irecv(to, (int)bytes, MPI_BYTE, peer, TAG, world, &request);
    return request;
}

static void wait_for(MPI_Request *request)
{
    MPI_Wait(request, MPI_STATUS_IGNORE);
}

static void send_now(int peer, long bytes, long stamp)
{
    MPI_Request request = send_to(peer, bytes, stamp);
    wait_for(&request);
}

static void receive_now(int peer, long bytes, long stamp)
{
    MPI_Request request = receive_from(peer, in, bytes);
    wait_for(&request);
    bench_check(in, (size_t)bytes, stamp);
}

/* A delay of the processor alone: a chain of multiplications. */
static volatile unsigned delay_end;

static void chain(long loops)
{
    unsigned x = delay_end;
    for (long i = 0; i < loops; i++)
        x = x * 1664525u + 1013904223u;
    delay_end = x;
}

/* Called by way of memory, so that all callers run the same code. */
static void (*volatile delay)(long loops) = chain;

static int by_time(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_time);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static void calibrate(void)
{
    long loops = 1000;
    double start, end;
    for (int batch = 0; batch < BATCHES; batch++) {
        start = end = MPI_Wtime();
        for (int i = 0; i < CLOCK_READINGS; i++)
            end = MPI_Wtime();
        times[0][batch] = (end - start) / CLOCK_READINGS;
    }
    clock_cost = median(times[0], BATCHES);
    do {
        loops *= 2;
        start = MPI_Wtime();
        delay(loops);
        end = MPI_Wtime();
    } while (end - start < 20e-6);
    loop_cost = (end - start) / (double)loops;
}

/* Seconds since `start`, without the reading of the clock. */
static double since(double start)
{
    return MPI_Wtime() - start - clock_cost;
}

/* Processor time of a send, and of its start, with time for the message to leave between start and
 * wait. */
static void sends(long bytes, int n, long loops, double *whole, double *issue)
{
    for (int i = 0; i < n; i++) {
        if (rank == last) {
            receive_now(0, bytes, number++);
            continue;
        }
        double start = MPI_Wtime();
        MPI_Request request = send_to(last, bytes, number++);
        times[0][i] = times[1][i] = since(start);
        delay(loops);
        start = MPI_Wtime();
        wait_for(&request);
        times[0][i] += since(start);
    }
    *whole = median(times[0], n);
    *issue = median(times[1], n);
}

/* Processor time of a receive whose message arrives in the delay, and of its wait. The message is
 * asked for by an empty one. */
static void receives(long bytes, int n, long loops, double *whole, double *complete)
{
    for (int i = 0; i < n; i++, number++) {
        if (rank == last) {
            receive_now(0, 0, 0);
            send_now(0, bytes, number);
            continue;
        }
        double start = MPI_Wtime();
        MPI_Request answer = receive_from(last, in, bytes);
        times[0][i] = since(start);
        MPI_Request ask = send_to(last, 0, 0);
        delay(loops);
        wait_for(&ask);
        start = MPI_Wtime();
        wait_for(&answer);
        times[1][i] = since(start);
        times[0][i] += times[1][i];
        bench_check(in, (size_t)bytes, number);
    }
    *whole = median(times[0], n);
    *complete = median(times[1], n);
}

/* The next receive is posted while the answer is on its way. */
static double round_trip(long bytes, int n, double *shortest)
{
    int peer = rank == 0 ? last : 0;
    MPI_Request request, answer = receive_from(peer, in, bytes);
    MPI_Sendrecv(NULL, 0, MPI_BYTE, peer, TAG + 1, NULL, 0, MPI_BYTE, peer, TAG + 1, world,
                 MPI_STATUS_IGNORE); /* both receives are posted */
    for (int i = 0; i < n; i++) {
        double start = MPI_Wtime();
        if (rank == 0)
            request = send_to(peer, bytes, number);
        wait_for(&answer);
        times[0][i] = since(start);
        if (rank != 0)
            request = send_to(peer, bytes, number);
        bench_check(in, (size_t)bytes, number++);
        if (i + 1 < n)
            answer = receive_from(peer, in, bytes);
        wait_for(&request);
    }
    double middle = median(times[0], n);
    *shortest = times[0][0];
    return middle;
}

/* From the first of `messages` to the answer of the last. The receives are posted before. */
static double train_of(int messages, long bytes, int n)
{
    static MPI_Request requests[MOST_TRAIN];
    for (int i = 0; i < n; i++) {
        if (rank == last) {
            for (int m = 0; m < messages; m++)
                requests[m] = receive_from(0, in + m * bytes, bytes);
            send_now(0, 0, 0);
            /* The last alone, so that what comes after it is the same for any number. */
            wait_for(&requests[messages - 1]);
            send_now(0, 0, 0);
            MPI_Waitall(messages - 1, requests, MPI_STATUSES_IGNORE);
            bench_check(in + (messages - 1) * bytes, (size_t)bytes, number++);
            continue;
        }
        receive_now(last, 0, 0);
        MPI_Request answer = receive_from(last, in, 0);
        bench_stamp(out, (size_t)bytes, number++);
        double start = MPI_Wtime();
        for (int m = 0; m < messages; m++)
            MPI_Isend(out, (int)bytes, MPI_BYTE, last, TAG, world, &requests[m]);
        wait_for(&answer);
        times[0][i] = since(start);
        MPI_Waitall(messages, requests, MPI_STATUSES_IGNORE);
    }
    return median(times[0], n);
}

/* One line. The delays are twice as long as the shortest round trip. */
static void measure(long bytes, int round, int n)
{
    double send = 0, issue = 0, receive = 0, complete = 0;
    double shortest, trip = round_trip(bytes, n, &shortest);
    long loops = (long)(2 * (shortest + 1e-6) / loop_cost);
    sends(bytes, n, loops, &send, &issue);
    receives(bytes, n, loops, &receive, &complete);
    double single = train_of(1, bytes, n), many = train_of(train, bytes, n);
    if (rank == 0 && round >= 0)
        printf("%ld %d %d %.4f %.4f %.4f %.4f %.4f %.4f %.4f\n", bytes, round, n, send * 1e9,
               issue * 1e9, receive * 1e9, complete * 1e9, trip * 1e9, single * 1e9, many * 1e9);
}

static int sizes_between(long smallest, long largest, long *sizes)
{
    int n = 0;
    for (long bytes = smallest; bytes <= largest && n < MOST_SIZES;) {
        sizes[n++] = bytes;
        bytes = bytes < 64 ? 64 : bytes < 1024 ? bytes * 4 : bytes * 2;
    }
    return n;
}

static void print_head(void)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(library, &length);
    library[strcspn(library, "\r\n")] = 0;
    printf("mica-loggp 1 %d %d %.4f %s\n", last + 1, train, clock_cost * 1e9, library);
    printf("bytes round repeat send issue receive complete round_trip single train\n");
}

/* What a rank says of its place: "CORES HOST". */
enum { PLACE_BYTES = 512 };

static void describe_place(char *text)
{
    cpu_set_t allowed;
    char host[128] = "?";
    int room = PLACE_BYTES - (int)sizeof host, used = 0;
    gethostname(host, sizeof host - 1);
    CPU_ZERO(&allowed);
    sched_getaffinity(0, sizeof allowed, &allowed);
    for (int first = 0; first < CPU_SETSIZE && used < room - 24; first++) {
        int end = first;
        while (end < CPU_SETSIZE && CPU_ISSET(end, &allowed))
            end++;
        if (end > first)
            used += snprintf(text + used, (size_t)(room - used), "%s%d-%d", used ? "," : "", first,
                             end - 1);
        first = end;
    }
    snprintf(text + used, (size_t)(PLACE_BYTES - used), "%s %s", used ? "" : "?", host);
}

static void print_places(void)
{
    static char own[PLACE_BYTES];
    char *all = bench_alloc((size_t)(last + 1) * PLACE_BYTES, 0);
    describe_place(own);
    MPI_Gather(own, PLACE_BYTES, MPI_BYTE, all, PLACE_BYTES, MPI_BYTE, 0, world);
    for (int i = 0; rank == 0 && i <= last; i++)
        printf("place %d %s\n", i, all + (size_t)i * PLACE_BYTES);
    free(all);
}

static long switches(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nivcsw;
}

/* By the rank that measures with this one, too. */
static void print_switches(long own)
{
    long other = 0;
    if (rank == last)
        MPI_Send(&own, 1, MPI_LONG, 0, TAG, world);
    if (rank != 0)
        return;
    MPI_Recv(&other, 1, MPI_LONG, last, TAG, world, MPI_STATUS_IGNORE);
    printf("switches %ld %ld\n", own + other, number);
}

int main(int argc, char **argv)
{
    long sizes[MOST_SIZES];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &last);
    last--;
    is_end = rank == 0 || rank == last;
    long rounds = bench_option_bytes(&argc, argv, "--rounds", 15);
    long repeat = bench_option_bytes(&argc, argv, "--repeat", 100);
    long messages = bench_option_bytes(&argc, argv, "--train", 16);
    long smallest = bench_option_bytes(&argc, argv, "--smallest", 1);
    long largest = bench_option_bytes(&argc, argv, "--largest", 256 << 10);
    if (argc > 1)
        bench_die("'%s' is no option", argv[1]);
    if (repeat > MOST_REPEAT)
        bench_die("expected a repeat of at most %d", MOST_REPEAT);
    if (last < 1 || rounds < 1 || repeat < 1 || messages < 2 || messages > MOST_TRAIN)
        bench_die("expected 2 ranks or more, rounds and repeat of 1 or more, a train of 2 to %d",
                  MOST_TRAIN);
    if (smallest < 1 || largest < smallest || largest > 1 << 30)
        bench_die("expected sizes from 1 to 1G, the smallest first");
    train = (int)messages;
    if (is_end)
        calibrate();
    if (rank == 0)
        print_head();
    print_places();
    if (is_end) {
        int count = sizes_between(smallest, largest, sizes);
        out = bench_alloc((size_t)largest, 1);
        in = bench_alloc((size_t)largest * (size_t)train, 2);
        long before = switches();
        for (int round = -1; round < rounds; round++) /* the first one warms up */
            for (int i = 0; i < count; i++) {
                long fit = (8 << 20) / sizes[i] + 1; /* some 8 MiB, four kinds of loops */
                measure(sizes[i], round, (int)(fit < repeat ? fit : repeat));
            }
        print_switches(switches() - before);
    }
    MPI_Barrier(world);
    MPI_Finalize();
    return 0;
}
