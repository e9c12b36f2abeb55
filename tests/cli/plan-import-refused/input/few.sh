torchrun --nproc_per_node 4 pretrain_gpt.py --num-layers 4 --hidden-size 64 --tensor-model-parallel-size 8
