// Stands for LibTorch's header: these targets run on the host alone.
#pragma once

#define C10_HOST_DEVICE
