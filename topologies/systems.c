/* Real machines as descriptions of families, with the source of every number. */
#include "topologies/systems.h"

/* Above each its source; what is not in it is assumed, and said so. */
const struct named_system systems[] = {
    /* docs.cscs.ch/alps/hardware: 2688 nodes of four GH200. De Sensi et al., "Exploring GPU-to-
     * GPU communication", SC24: 150 GB/s between any two GPUs of a node, a 200 Gb/s Slingshot
     * port each, dragonfly. Assumed: 21 groups of 128 nodes, half of a group's ports leave it. */
    {"alps-like",
     "dragonfly+:groups=21,leaves=16,nodes=8,gpus=4,nics=4,type=GH200,mesh=1,global=320GBps",
     "2,688 nodes of four GH200, Slingshot 200 Gb/s a GPU, dragonfly"},
    /* NVIDIA DGX SuperPOD (A100) reference architecture: a scalable unit is 20 DGX A100, eight
     * 200 Gb/s compute ports each, rail-optimised. */
    {"dgx-a100-pod", "rail:nodes=20,type=A100,rack=20", "a SuperPOD's scalable unit: 20 DGX A100"},
    /* NVIDIA DGX SuperPOD (H100) reference architecture: 4 units of 32 DGX H100 (of which the
     * manager's place costs one node), eight 400 Gb/s ports each, no oversubscription. */
    {"dgx-h100-pod", "rail:nodes=128,type=H100,rack=32", "a SuperPOD of four units of 32 DGX H100"},
    /* Qian et al., SIGCOMM 2024: 15 segments of 128 nodes of eight GPUs, 2 x 200 Gb/s a GPU; a
     * leaf has 60 x 400 Gb/s to the 60 spines of its plane. Assumed: GPUs of type H100. */
    {"hpn-15k", "hpn:nodes=1920,spines=60,oversubscription=1.0667",
     "15,360 GPUs of Alibaba's HPN: 15 segments of 128 nodes, two planes"},
    /* Llama Team, "The Llama 3 herd of models", arXiv 2407.21783, section 3.3.1: racks of two
     * servers of eight H100, 400 Gb/s a GPU, pods of 192 racks without oversubscription, 7:1
     * above; of its 24k GPUs 16k were used. */
    {"llama3-16k", "fat-tree:nodes=2048,gpus=8,nics=8,type=H100,edge=2,pod=192,core=7",
     "16,384 H100 in racks of 16, pods of 3,072, 7:1 between pods"},
    /* NVIDIA GB200 NVL72: 72 GPUs on one NVSwitch domain; eight of them, 400 Gb/s a GPU. */
    {"nvl72-8", "nvl:domains=8", "eight GB200 NVL72 racks"},
    /* As nvl72-8, joined by rails as DGX are in dgx-h100-pod. */
    {"nvl72-rails", "rail:nodes=8,gpus=72,type=GB200",
     "eight GB200 NVL72 racks, GPU G of each on one switch"},
    /* Narayanan et al., "PipeDream", SOSP 2019, cluster B: eight V100 of 16 GiB with NVLink a
     * server, 25 Gb/s; two servers for its 16-GPU runs. NVLink as a switch. */
    {"pipedream-b", "leaf-spine:nodes=2,gpus=8,type=V100-FP32,nic=25Gbps",
     "PipeDream's cluster B: eight V100 a server, 25 Gb/s"},
    /* Invented: 16,384 H100 on rails of 32 nodes, no oversubscription. */
    {"rail-16k", "rail:nodes=2048,type=H100,rack=32", "16,384 H100, rail-optimised"},
    /* TOP500 of June 2020: 280 DGX A100; units of 20 as in dgx-a100-pod. */
    {"selene-like", "rail:nodes=280,type=A100,rack=20", "2,240 A100 of 280 DGX A100"},
};
const size_t systems_n = sizeof systems / sizeof *systems;
