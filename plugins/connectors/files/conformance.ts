/** A folder that the suite fills: a table is a folder of files, every second one of CSV, the others of JSON lines. */
import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, readdir, readFile, readlink, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { SourceFixture } from '@sluice/conformance'
import { type FilesPlace, givenFiles, givenRows, givenTables, tablesIn } from './conformance-tables.ts'

export async function start(): Promise<SourceFixture> {
  const root = await mkdtemp(join(tmpdir(), 'sluice-files-'))
  const folder = join(root, 'files')
  await mkdir(folder)
  const place: FilesPlace = {
    /** In one step, as whoever writes files that others read should do. */
    write: async (path, content) => {
      await mkdir(dirname(join(folder, path)), { recursive: true })
      await writeFile(join(root, 'next'), content)
      await rename(join(root, 'next'), join(folder, path))
    },
    remove: (path) => rm(join(folder, path), { recursive: true, force: true }),
  }
  for (const [path, content] of givenFiles) await place.write(path, content)
  return {
    settings: { folder, tables: givenTables },
    schema: 'files',
    steps: ['privileges'],
    broken: { privileges: { folder: join(root, 'absent') } },
    expected: givenRows,
    ...tablesIn(place),
    digest: () => digestOf(folder),
    sessions: () => openFilesIn(folder),
    stop: () => rm(root, { recursive: true, force: true }),
  }
}

async function digestOf(folder: string): Promise<string> {
  const hash = createHash('sha256')
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
  for (const path of paths.sort()) hash.update(path).update(await readFile(path))
  return hash.digest('hex')
}

/** By the kernel's list, where there is one. */
async function openFilesIn(folder: string): Promise<number> {
  const numbers = await readdir('/proc/self/fd').catch(() => [])
  const paths = await Promise.all(numbers.map((number) => readlink(`/proc/self/fd/${number}`).catch(() => '')))
  return paths.filter((path) => path.startsWith(`${folder}/`)).length
}
