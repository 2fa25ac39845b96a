/** Writes products into a new folder: all of them, or none. */
import { lstat, mkdir, mkdtemp, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { UsageError } from '../arguments.ts'
import { makeFolder, reasonOf, refusedIn } from '../failures.ts'
import type { Carried } from './carry.ts'

/** Throws where something is there: nothing is ever written over. */
export async function checkFree(folder: string): Promise<void> {
  const facts = await lstat(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw new UsageError(`${folder} cannot be looked at: ${reasonOf(error)}`)
  })
  if (facts === null) return
  if (!facts.isDirectory()) throw new UsageError(`${folder} is no folder`)
  if ((await readdir(folder)).length > 0) throw new UsageError(`${folder} is not empty; name a new folder`)
}

/** Beside its place first. Names of products have passed the rules of names, so that none leads out of the folder. */
export async function writeProducts(folder: string, products: readonly Carried[]): Promise<void> {
  const target = resolve(folder)
  try {
    await makeFolder(dirname(target))
    const begun = await mkdtemp(`${target}.part-`)
    try {
      for (const { namespace, name, texts } of products) {
        const own = join(begun, namespace, name)
        await mkdir(own, { recursive: true, mode: 0o700 })
        for (const [part, text] of Object.entries(texts))
          await writeFile(join(own, `${part}.yaml`), text, { flag: 'wx' })
      }
      // Onto an empty folder alone: where something has come there meanwhile, the system refuses.
      await rename(begun, target)
    } finally {
      await rm(begun, { recursive: true, force: true })
    }
  } catch (error) {
    throw refusedIn(folder, error)
  }
}
