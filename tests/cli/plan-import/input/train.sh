#!/bin/bash
GPUS_PER_NODE=8
NNODES=${NNODES:-2}
TP=4
MODEL=(
    --num-layers 8   # as many as
    --hidden-size 256 --num-attention-heads 8
    --group-query-attention --num-query-groups 4
    --ffn-hidden-size 512 --swiglu --normalization RMSNorm --disable-bias-linear
    --position-embedding-type rope --untie-embeddings-and-output-weights
    --seq-length 512 --max-position-embeddings 512 --vocab-size 1000
)
if [ "$TP" -gt 1 ]; then MODEL+=(--sequence-parallel); fi
torchrun --nnodes $NNODES --nproc_per_node $GPUS_PER_NODE pretrain_gpt.py "${MODEL[@]}" \
    --tensor-model-parallel-size $TP --pipeline-model-parallel-size 2 \
    --num-layers-per-virtual-pipeline-stage $((8 / 2 / 2)) \
    --micro-batch-size 1 --global-batch-size 32 --bf16 --use-distributed-optimizer \
    --overlap-grad-reduce --recompute-granularity full --recompute-method uniform \
    --recompute-num-layers 1 --tp-comm-overlap --lr 1e-4 --save $CKPT --data-path $DATA --frobnicate 3
