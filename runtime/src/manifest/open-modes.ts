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

/** Whether manifests that were deployed have the same input, by the log that was taken for it. */
export function hasTakenLog(deployed: ManifestSet | null, { name, connection, table }: Input): boolean {
  const inputs = deployed?.inputs ?? []
  return inputs.some((one) => {
    return one.isChosen === true && one.name === name && one.connection === connection && one.table === table
  })
}

/** Manifests that were read anew, with the modes that were taken for them before. */
export function withModesOf(former: ManifestSet, manifests: ManifestSet): ManifestSet {
  const isTaken = (input: Input) => leavesModeOpen(input) && hasTakenLog(former, input)
  return { ...manifests, inputs: manifests.inputs.map((input) => (isTaken(input) ? byLog(input) : input)) }
}
