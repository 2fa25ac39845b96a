/** Which places of the sources some processes have come by, from what V8 writes where NODE_V8_COVERAGE names a folder. */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

interface Range {
  readonly startOffset: number
  readonly endOffset: number
  readonly count: number
}

interface Script {
  readonly url: string
  readonly functions: readonly { readonly ranges: readonly Range[] }[]
}

export class Coverage {
  /** For each file one list of ranges a process. */
  readonly #processes: ReadonlyMap<string, readonly (readonly Range[])[]>

  constructor(processes: ReadonlyMap<string, readonly (readonly Range[])[]>) {
    this.#processes = processes
  }

  /** Whether any process has loaded it: one that was killed, or runs with an empty environment, tells nothing. */
  hasLoaded(file: string): boolean {
    return this.#processes.has(file)
  }

  /** Offsets are those of the source, since Node blanks types in place. */
  hasRun(file: string, offset: number): boolean {
    return this.#processes.get(file)?.some((ranges) => countAt(ranges, offset) > 0) ?? false
  }
}

/** The innermost range is the one that knows. */
function countAt(ranges: readonly Range[], offset: number): number {
  let innermost: Range | null = null
  for (const range of ranges) {
    if (offset < range.startOffset || offset >= range.endOffset) continue
    const isInner = innermost === null || sizeOf(range) <= sizeOf(innermost)
    if (isInner) innermost = range
  }
  return innermost?.count ?? 0
}

function sizeOf({ startOffset, endOffset }: Range): number {
  return endOffset - startOffset
}

/** Of files below `root`, by their paths from it. */
export async function readCoverage(folder: string, root: string): Promise<Coverage> {
  const inside = `${pathToFileURL(root).href}/`
  const processes = new Map<string, (readonly Range[])[]>()
  for (const name of await readdir(folder).catch(() => [])) {
    const text = await readFile(join(folder, name), 'utf8')
    for (const { url, functions } of scriptsOf(text)) {
      if (!url.startsWith(inside) || url.includes('/node_modules/')) continue
      const file = decodeURI(url.slice(inside.length).split('?')[0] ?? '')
      const ranges = functions.flatMap((one) => one.ranges)
      processes.set(file, [...(processes.get(file) ?? []), ranges])
    }
  }
  return new Coverage(processes)
}

/** A process that is killed while it writes leaves half a file. */
function scriptsOf(text: string): readonly Script[] {
  try {
    return (JSON.parse(text) as { readonly result?: readonly Script[] }).result ?? []
  } catch {
    return []
  }
}
