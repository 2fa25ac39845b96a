import { conformance } from './conformance.ts'
import { crash } from './crash.ts'
import type { Proof } from './proof.ts'

export const PROOFS: readonly Proof[] = [crash, conformance]
