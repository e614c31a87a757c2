// Guidance: a prediction is pushed away from that of a worse model, or of one that knows less.
#pragma once

#include "diffusion/sampler.h"

namespace ddpm::diffusion {

/// F = F_weak + scale (F_strong - F_weak): Ho & Salimans, "Classifier-Free Diffusion Guidance", 2022, where the weak
/// prediction is that of the null class; Karras et al., "Guiding a Diffusion Model with a Bad Version of Itself", 2024,
/// eq. 3, where it is that of a less trained model. It is the same for F as for D, which is linear in F.
Denoiser guided(Denoiser strong, Denoiser weak, double scale);

}  // namespace ddpm::diffusion
