from torchtitan.trainer import Trainer
def llama3_8b() -> Trainer.Config:
    spec = model_registry("8B")
    return Trainer.Config(
        model_spec=spec,
        training=TrainingConfig(num_tokens_per_microbatch_per_dp_rank=2 * 4096, max_context_length=4096),
        parallelism=ParallelismConfig(tensor_parallel_degree=4),
        activation_checkpoint=FullAC.Config(),
    )
def llama3_8b_wide() -> Trainer.Config:
    config = llama3_8b()
    config.parallelism.tensor_parallel_degree = 8
    return config
