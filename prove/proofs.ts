import { answers } from './answers/proof.ts'
import { conformance } from './conformance.ts'
import { crash } from './crash.ts'
import { mutations } from './mutations/proof.ts'
import { referenceMutations } from './mutations/reference.ts'
import { nonInterference } from './non-interference.ts'
import type { Proof } from './proof.ts'
import { selection } from './selection/proof.ts'
import { snapshotLadder } from './snapshot-ladder.ts'
import { tenants } from './tenants.ts'
import { versions } from './versions.ts'
import { waves } from './waves.ts'

export const PROOFS: readonly Proof[] = [
  crash,
  conformance,
  selection,
  mutations,
  referenceMutations,
  tenants,
  nonInterference,
  answers,
  waves,
  versions,
  snapshotLadder,
]
