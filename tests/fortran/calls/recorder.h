/* The recorder: stands in for libmpi_abi.so.1, writes down which function of C was called and with
 * what, and stores results that follow from the number of the call. calls.py writes a function
 * arrived_MPI_X for most functions; by_hand.h has the others.
 *
 * Each call is a paragraph of the record: "# NUMBER", the function and its arguments, a line for
 * each callback and for what it returned, and "back" with what Fortran saw afterwards. A line is
 * closed when what it describes is over: what Fortran says next begins a line of its own.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What Fortran says before each call: its number, the code that it returns (which stores no
 * results
 * unless it is MPI_SUCCESS), and whether its results are special (MPI_UNDEFINED). */
static int K, CODE, SPECIAL;
static FILE *record;
static char *block;
static size_t block_bytes;
static int line_is_open;

static void line(const char *begin)
{
    fprintf(record, "\n%s", begin);
    line_is_open = 1;
}

static int end(void)
{
    line_is_open = 0;
    return CODE;
}

void recorder_open(const char *path, char *address, size_t bytes)
{
    record = fopen(path, "w");
    if (record == NULL) {
        perror(path);
        exit(2);
    }
    block = address;
    block_bytes = bytes;
}

void recorder_next(int number, int code, int special)
{
    K = number;
    CODE = code;
    SPECIAL = special;
    line_is_open = 0;
    fprintf(record, "\n# %d", number);
    fflush(record);
}

void recorder_callback(const char *name)
{
    line("callback ");
    fputs(name, record);
}

void recorder_back(const char *name, int element, long long value)
{
    if (!line_is_open)
        line("back");
    if (element == 0)
        fprintf(record, " %s=%lld", name, value);
    else
        fprintf(record, ",%lld", value);
}

void recorder_back_text(const char *name, const char *text, int length)
{
    if (!line_is_open)
        line("back");
    fprintf(record, " %s=\"%.*s\"", name, length, text);
}

/* An address: of the block, or one that stands for something. */
void recorder_back_address(const char *name, void *address)
{
    if (!line_is_open)
        line("back");
    if ((char *) address >= block && (char *) address < block + block_bytes)
        fprintf(record, " %s=block+%ld", name, (long) ((char *) address - block));
    else if (address == NULL)
        fprintf(record, " %s=null", name);
    else if (address == MPI_IN_PLACE)
        fprintf(record, " %s=in_place", name);
    else if (address == MPI_BUFFER_AUTOMATIC)
        fprintf(record, " %s=automatic", name);
    else if (address == (void *) MPI_UNWEIGHTED)
        fprintf(record, " %s=unweighted", name);
    else if (address == (void *) MPI_WEIGHTS_EMPTY)
        fprintf(record, " %s=empty", name);
    else
        fprintf(record, " %s=place", name);
}

/* Arguments. Those of an array with no elements at its address are written as that address. */
#define show_address(name, value) recorder_back_address(name, (void *) (value))
#define show_integer(name, value) recorder_back(name, 0, (long long) (value))
#define show_handle(name, value) show_integer(name, (uintptr_t) (value))
#define is_special(value) ((uintptr_t) (value) < 16)
#define show_integers(name, values, n)                                         \
    do {                                                                       \
        if (is_special(values))                                                \
            show_address(name, values);                                        \
        else                                                                   \
            for (int e_ = 0; e_ < (n); e_++)                                   \
                recorder_back(name, e_, (long long) (values)[e_]);             \
    } while (0)
#define show_handles(name, values, n)                                          \
    do {                                                                       \
        if (is_special(values))                                                \
            show_address(name, values);                                        \
        else                                                                   \
            for (int e_ = 0; e_ < (n); e_++)                                   \
                recorder_back(name, e_, (long long) (uintptr_t) (values)[e_]); \
    } while (0)

static inline void show_text(const char *name, const char *value)
{
    if (value == NULL)
        show_address(name, value);
    else
        recorder_back_text(name, value, (int) strlen(value));
}

static inline void show_status(const char *name, const MPI_Status *value)
{
    if (value == NULL) {
        show_address(name, value);
        return;
    }
    recorder_back(name, 0, value->MPI_SOURCE);
    recorder_back(name, 1, value->MPI_TAG);
    recorder_back(name, 2, value->MPI_ERROR);
}

/* Every other handle has the sign of an INTEGER. */
static inline unsigned handle_word(unsigned number)
{
    return (K % 2 ? 0xa0000000u : 0x20000000u) + number;
}

/* Results: of parameter `i`, element `e`. */
#define result(i, e) (1000000000 + K * 1000 + (i) * 10 + (e))
#define wide_result(i, e) ((1LL << 41) + result(i, e))
#define flag_result(i, e) ((K + (i) + (e)) % 2)
#define handle_result(i, e) ((void *) (uintptr_t) handle_word(K * 1000 + (i) * 10 + (e)))
#define address_result(i) (block + (K * 7 + (i)) % 60 * 32)
#define text_result(place, i) sprintf(place, "out %d.%d", K, i)

static inline void status_result(MPI_Status *place, int i, int e)
{
    if (place == NULL)
        return;
    place[e].MPI_SOURCE = result(i, 3 * e);
    place[e].MPI_TAG = result(i, 3 * e + 1);
    place[e].MPI_ERROR = result(i, 3 * e + 2);
}

/* Answers what the library asks of the communicators of asked() in calls.py. */
static inline int answer(const char *called, MPI_Comm comm, int *first, int *second)
{
    static const struct {
        uintptr_t comm;
        const char *called;
        int first, second;
    } answers[] = {
        {0x7001, "PMPI_Topo_test", MPI_CART, 0}, {0x7001, "PMPI_Cartdim_get", 3, 0},
        {0x7002, "PMPI_Comm_test_inter", 0, 0}, {0x7002, "PMPI_Comm_size", 3, 0},
        {0x7003, "PMPI_Comm_test_inter", 1, 0}, {0x7003, "PMPI_Comm_size", 5, 0},
        {0x7003, "PMPI_Comm_remote_size", 3, 0},
        {0x7004, "PMPI_Topo_test", MPI_DIST_GRAPH, 0},
        {0x7004, "PMPI_Dist_graph_neighbors_count", 2, 3},
        {0x7007, "PMPI_Topo_test", MPI_DIST_GRAPH, 0},
        {0x7007, "PMPI_Dist_graph_neighbors_count", 3, 2},
        {0x7005, "PMPI_Topo_test", MPI_GRAPH, 0}, {0x7005, "PMPI_Comm_rank", 1, 0},
        {0x7005, "PMPI_Graph_neighbors_count", 3, 0},
        {0x7006, "PMPI_Topo_test", MPI_CART, 0}, {0x7006, "PMPI_Cartdim_get", 1, 0},
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        if (answers[i].comm != (uintptr_t) comm || strcmp(answers[i].called, called) != 0)
            continue;
        *first = answers[i].first;
        if (second != NULL)
            *second = answers[i].second;
        return 1;
    }
    return 0;
}

/* How many datatypes those communicators have, to send and to receive. */
static inline int partners(MPI_Comm comm, int to_receive)
{
    switch ((uintptr_t) comm) {
    case 0x7004: return to_receive ? 2 : 3;
    case 0x7006: return 2;
    case 0x7007: return to_receive ? 3 : 2;
    default: return 3;
    }
}
