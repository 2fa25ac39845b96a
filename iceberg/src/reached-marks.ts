/**
 * What cleanings have found to be in use. A table of many commits has forgotten within minutes what it was, and readers may still
 * be at it: a file that nothing reached at one cleaning, and that nobody was about to commit, is needed by nobody who began
 * after it. So these notes say what a later cleaning may take.
 */
import type { ObjectStat } from './store/object-store.ts'
import type { TableFiles } from './table-files.ts'

export interface Mark {
  readonly path: string
  /** Of the cleaning. Milliseconds since 1970. */
  readonly atMs: number
}

/** Below the table's folder, as the note of the newest epoch: nothing leads to them. */
const NAME = /^\/metadata\/reached-(\d{1,15})\.json$/

export function isMark(files: TableFiles, path: string): boolean {
  return path.startsWith(files.root) && NAME.test(path.slice(files.root.length))
}

/** Oldest first. */
export function marksAmong(files: TableFiles, listed: readonly ObjectStat[]): readonly Mark[] {
  const marks = listed.flatMap(({ path }) => {
    const atMs = path.startsWith(files.root) ? NAME.exec(path.slice(files.root.length))?.[1] : undefined
    return atMs === undefined ? [] : [{ path, atMs: Number(atMs) }]
  })
  return marks.sort((a, b) => a.atMs - b.atMs)
}

/** The paths that were in use then. */
export async function readMark({ store, root }: TableFiles, { path }: Mark): Promise<ReadonlySet<string>> {
  const names = JSON.parse(Buffer.from(await store.get(path)).toString('utf8')) as readonly string[]
  return new Set(names.map((name) => `${root}/${name}`))
}

/** Returns its bytes. */
export async function writeMark(
  { store, root }: TableFiles,
  atMs: number,
  reached: ReadonlySet<string>,
): Promise<number> {
  const names = Array.from(reached, (path) => path.slice(root.length + 1))
  const body = Buffer.from(JSON.stringify(names), 'utf8')
  await store.put(`${root}/metadata/reached-${atMs}.json`, body)
  return body.length
}
