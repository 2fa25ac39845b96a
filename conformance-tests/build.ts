/** Builds a plugin of its sources, so that what is tried and certified is never what an older source was compiled to. */
import { spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join, relative, sep } from 'node:path'
import { publishedPart } from '@sluice/sdk'
import { packageOf } from './plugin-package.ts'

const SHOWN_LINES = 20

/** Whether the plugin's module is one that its package builds: installed packages and plain sources are not. */
async function isBuilt(folder: string, modulePath: string): Promise<boolean> {
  if (folder.split(sep).includes('node_modules')) return false
  const manifest = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as {
    readonly files?: unknown
    readonly scripts?: Readonly<Record<string, string>>
  }
  if (manifest.scripts?.['build'] === undefined) return false
  return publishedPart(manifest.files, relative(folder, modulePath).split(sep).join('/')) !== null
}

/**
 * Runs the package's `build`, where the module is made by it.
 * @returns whether the module is what its sources say now; false where it was left as it is
 * @throws a plain Error with the end of what the build said, where it fails
 */
export async function buildNow(modulePath: string, isWanted: boolean): Promise<boolean> {
  const folder = (await packageOf(modulePath))?.folder
  if (folder === undefined || !(await isBuilt(folder, modulePath))) return true
  if (!isWanted) return false
  const isWindows = process.platform === 'win32'
  const child = spawn('npm', ['run', 'build'], { cwd: folder, shell: isWindows, stdio: ['ignore', 'pipe', 'pipe'] })
  const said: string[] = []
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => said.push(chunk.toString()))
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  if (code === 0) return true
  const end = said.join('').trim().split('\n').slice(-SHOWN_LINES).join('\n')
  throw new Error(`npm run build in ${folder} failed, and what it made before is not tried in its place:\n${end}`)
}
