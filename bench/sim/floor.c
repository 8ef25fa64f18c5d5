/* The least that a plugin of QEMU's interface, version 1, does to simulate caches: one call a block,
 * which counts its instructions, and one call an access, which counts it. bench/sim_speed.sh
 * measures how long that takes. The interface is declared here as in crates/sim-plugin/src/qemu.rs. */
#include <stddef.h>
#include <stdint.h>

typedef uint64_t plugin_id;
struct block;
struct instruction;
typedef void on_translation(plugin_id, struct block *);
typedef void on_block(unsigned, void *);
typedef void on_access(unsigned, uint32_t, uint64_t, void *);

extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, on_translation *);
extern size_t qemu_plugin_tb_n_insns(const struct block *);
extern struct instruction *qemu_plugin_tb_get_insn(const struct block *, size_t);
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct block *, on_block *, int, void *);
extern void qemu_plugin_register_vcpu_mem_cb(struct instruction *, on_access *, int, int, void *);

int qemu_plugin_version = 1;

enum { NO_REGISTERS = 0, LOADS_AND_STORES = 3 };
static uint64_t instructions, accesses;

static void count_block(unsigned processor, void *word)
{
    (void)processor;
    instructions += (uintptr_t)word;
}

static void count_access(unsigned processor, uint32_t description, uint64_t address, void *word)
{
    (void)processor, (void)description, (void)address, (void)word;
    accesses++;
}

static void translated(plugin_id id, struct block *block)
{
    (void)id;
    size_t count = qemu_plugin_tb_n_insns(block);
    qemu_plugin_register_vcpu_tb_exec_cb(block, count_block, NO_REGISTERS, (void *)count);
    for (size_t i = 0; i < count; i++)
        qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(block, i), count_access,
                                         NO_REGISTERS, LOADS_AND_STORES, NULL);
}

int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv)
{
    (void)info, (void)argc, (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    return 0;
}
