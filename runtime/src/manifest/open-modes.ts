/** Inputs that name no mode, and what was taken for them when their version was deployed. */
import type { Input, ManifestSet } from './manifest-set.ts'

/** Nobody has said anything that has no place beside the log of the source: how rows are told apart, or found to be new or gone. */
export function leavesModeOpen(input: Input): boolean {
  return (
    input.mode === 'auto' &&
    input.cursorColumn === null &&
    input.primaryKey.length === 0 &&
    input.deletes === 'key_sweep' &&
    input.saysDeletes !== true
  )
}

/** By the log of its source, which tells what is gone, too. */
export function byLog({ deletes: _, ...input }: Input): Input {
  return { ...input, mode: 'cdc', isChosen: true }
}

/** As its file says it, whatever was taken for it. */
export function asWritten({ isChosen, saysDeletes: _, ...input }: Input): Input {
  return isChosen === true ? { ...input, mode: 'auto', deletes: 'key_sweep' } : input
}

/** Manifests that were read anew, with the modes that were taken for them before. */
export function withModesOf(former: ManifestSet, manifests: ManifestSet): ManifestSet {
  const chosen = former.inputs.filter(({ isChosen }) => isChosen === true)
  const isSame = (one: Input) => (other: Input) =>
    one.name === other.name && one.connection === other.connection && one.table === other.table
  return {
    ...manifests,
    inputs: manifests.inputs.map((input) =>
      leavesModeOpen(input) && chosen.some(isSame(input)) ? byLog(input) : input,
    ),
  }
}
