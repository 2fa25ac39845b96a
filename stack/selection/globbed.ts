/** Which paths a glob means. Node makes each glob anew for each path, which is dear; most paths do not even begin like it. */
import { posix } from 'node:path'

/** Folders that the glob names as they are. */
const PLAIN_FOLDERS = /^(?:[\w.@-]+\/)*/

export function globbed(pattern: string, paths: Iterable<string>): readonly string[] {
  const [folders = ''] = PLAIN_FOLDERS.exec(pattern) ?? []
  return [...paths].filter((path) => path.startsWith(folders) && posix.matchesGlob(path, pattern))
}
