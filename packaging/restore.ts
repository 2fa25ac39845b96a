import { rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'

/** Where a workspace's own package.json waits while the packed one has its place. */
export const SOURCE_MANIFEST = 'package.source.json'

/** Leaves the workspace as it was before it was packed; of one that was not, nothing is changed. */
export async function restore(folder: string): Promise<void> {
  const source = join(folder, SOURCE_MANIFEST)
  const isPacked = await stat(source).catch(() => null)
  if (isPacked === null) return
  await rename(source, join(folder, 'package.json'))
  await rm(join(folder, 'LICENSE'), { force: true })
  await rm(join(folder, 'dist'), { recursive: true, force: true })
}
