import os
lr = os.environ["GPURUN_PARAM_LR"]
