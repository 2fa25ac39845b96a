/**
 * Tells that manifests of a folder were saved, in whatever way an editor does that. It looks at the files again and again:
 * what systems tell of files misses those that are put in the place of others, and those of other machines.
 */
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { PARTS } from './product-files.ts'
import { folderIn, productFolders } from './product-folders.ts'

const EVERY_MS = 200
/** Of a folder of many products a look takes longer, and is left longer alone. */
const IDLE_SHARE = 10

/** Equal of two moments between which no manifest was saved. Never rejected: a folder that cannot be read is one state of it. */
export async function stateOf(root: string): Promise<string> {
  try {
    return [...(await statesIn(root))].flat().join('\n')
  } catch (error) {
    return `cannot be read: ${(error as Error).message}`
  }
}

/** The state of each product's files, by its folder as `FolderProduct` has it. Throws UsageError as `productFolders` does. */
export async function statesIn(root: string): Promise<ReadonlyMap<string, string>> {
  const states = new Map<string, string>()
  for (const path of await productFolders(root)) {
    const facts = PARTS.map((part) => factsOf(join(path, `${part}.yaml`)))
    states.set(folderIn(root, path), (await Promise.all(facts)).join('\n'))
  }
  return states
}

/** The same text saved again is another state: whoever saves wants to see something, after a sync for example. */
async function factsOf(file: string): Promise<string> {
  try {
    const { ino, size, mtimeNs, ctimeNs } = await stat(file, { bigint: true })
    return [file, ino, size, mtimeNs, ctimeNs].join(' ')
  } catch {
    return `${file} is not there`
  }
}

interface Pace {
  /** Between two looks; default 200 ms. */
  readonly everyMs?: number
  readonly signal?: AbortSignal
}

/** Fulfilled with the state of a folder whose manifests were saved since it had that state. */
export const untilSaved = (root: string, since: string, pace: Pace = {}): Promise<string> =>
  untilOther(() => stateOf(root), since, pace)

/** Fulfilled with a state that is another one than `since`, once two looks have found it: a burst of saves is one. */
export async function untilOther(
  look: () => Promise<string>,
  since: string,
  { everyMs = EVERY_MS, signal }: Pace,
): Promise<string> {
  for (let last = since; ; ) {
    const beganMs = performance.now()
    const now = await look()
    if (now !== since && now === last) return now
    last = now
    const lookedMs = performance.now() - beganMs
    await sleep(Math.max(everyMs, lookedMs * IDLE_SHARE), undefined, { signal })
  }
}
