/**
 * Run by npm before a workspace is packed, in its folder: compiles it and lets its package.json point at what was
 * compiled, since inside of node_modules Node runs no TypeScript. `postpack.ts` undoes it.
 */
import { existsSync } from 'node:fs'
import { copyFile, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { compile } from './compile.ts'
import { packedManifest, type WorkspaceManifest } from './packed-manifest.ts'
import { restore, SOURCE_MANIFEST } from './restore.ts'

const folder = process.cwd()
// A pack that was interrupted has left its own package.json behind.
await restore(folder)
const file = join(folder, 'package.json')
const manifest = JSON.parse(await readFile(file, 'utf8')) as WorkspaceManifest
await copyFile(file, join(folder, SOURCE_MANIFEST))
await compile(folder).catch(async (error: unknown) => {
  await restore(folder)
  throw error
})
await copyFile(join(import.meta.dirname, '../LICENSE'), join(folder, 'LICENSE'))
const isCompiled = (target: string) => existsSync(join(folder, target))
await writeFile(file, `${JSON.stringify(packedManifest(manifest, isCompiled), null, 2)}\n`)
