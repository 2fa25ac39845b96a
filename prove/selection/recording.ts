/** Which files of the checkout each suite has opened, as `opened.py` tells it. */
import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { runChild } from '../child.ts'
import type { Request } from '../proof.ts'

const ROOT = join(import.meta.dirname, '../..')
const RECORDER = join(import.meta.dirname, 'opened.py')

export interface Recording {
  readonly bySuite: ReadonlyMap<string, ReadonlySet<string>>
  /** Opened by the runner and what it installs, and by no suite. */
  readonly byNobody: readonly string[]
}

/** Runs the command to its end; what it ends with is its own affair, since failing tests open files too. */
export async function record(file: string, command: readonly string[], { signal, say }: Request): Promise<void> {
  const args = [RECORDER, ROOT, resolve(file), ...command]
  const { code, tail } = await runChild('python3', args, { cwd: ROOT, signal, onLine: say })
  if (code === 127 || code === null) throw new Error(`nothing was recorded:\n${tail}`)
  if (code !== 0) say(`what was recorded ended with ${code}`)
}

export async function readRecording(file: string): Promise<Recording> {
  const told = JSON.parse(await readFile(resolve(file), 'utf8')) as {
    readonly suites: Readonly<Record<string, readonly string[]>>
  }
  const { '': runner = [], ...suites } = told.suites
  const bySuite = new Map(Object.entries(suites).map(([name, files]) => [name, new Set(files)]))
  const known = new Set([...bySuite.values()].flatMap((files) => [...files]))
  return { bySuite, byNobody: runner.filter((file) => !known.has(file)) }
}
