#!/bin/bash
export CUDA_VISIBLE_DEVICES=3
python train.py &
