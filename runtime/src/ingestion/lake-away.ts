/** Tells errors of the lake, and of what writes it, from those of a source. */
import { isSluiceError } from '@sluice/sdk'

/** `cause` is what the lake said. */
export class LakeAway extends Error {
  constructor(cause: unknown) {
    super('the lake cannot be written', { cause })
  }
}

/** Of `work`, which asks nothing of the source. Throws `LakeAway` where it could not be done, whoever asks for what. */
export async function atLake<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw signal.aborted || isOfWork(error) ? error : new LakeAway(error)
  }
}

const OF_WORK = new Set(['FENCED', 'CONFLICT', 'QUOTA', 'INVALID_DATA'])

/** What was asked for is at fault, or who asks. */
function isOfWork(error: unknown): boolean {
  return isSluiceError(error) && (OF_WORK.has(error.kind) || error.code === 'connector_contract')
}
