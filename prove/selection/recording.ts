/** Which files of the checkout each suite has opened, as `opened.py` tells it. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
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

/** What `opened.py` writes. */
interface Told {
  readonly suites: Readonly<Record<string, readonly string[]>>
}

/**
 * Runs the command to its end; what it ends with is its own affair, since failing tests open files too. With a suite
 * all that the command does is of this suite, the runner and its servers included.
 */
export async function record(
  file: string,
  command: readonly string[],
  { signal, say }: Request,
  suite?: string,
): Promise<void> {
  const env = suite === undefined ? {} : { SLUICE_TEST_SUITE: suite }
  const args = [RECORDER, ROOT, resolve(file), ...command]
  const { code, tail } = await runChild('python3', args, { cwd: ROOT, env, signal, onLine: say })
  const told = await readFile(resolve(file), 'utf8').catch(() => null)
  if (told === null) throw new Error(`nothing was recorded:\n${tail}`)
  if (code !== 0) say(`what was recorded ended with ${code}`)
}

/** One after the other, each added to what the file holds, so that a recording may be gone on with. */
export async function recordSuites(file: string, names: readonly string[], request: Request): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-opened-'))
  try {
    for (const name of names) {
      const one = join(folder, name)
      await record(one, [process.execPath, 'stack/run.ts', name], request, name)
      const before = await readTold(file).catch((): Told => ({ suites: {} }))
      const suites = { ...before.suites, ...(await readTold(one)).suites }
      await writeFile(resolve(file), JSON.stringify({ suites }, null, 1))
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function readTold(file: string): Promise<Told> {
  return JSON.parse(await readFile(resolve(file), 'utf8')) as Told
}

/** A suite's definition is part of its key by itself, and the list of all suites of none. */
const KEYED_OTHERWISE = ['stack/suites.ts']

export async function readRecording(file: string): Promise<Recording> {
  const { '': runner = [], ...suites } = (await readTold(file)).suites
  const own = (files: readonly string[]) => new Set(files.filter((name) => !KEYED_OTHERWISE.includes(name)))
  const bySuite = new Map(Object.entries(suites).map(([name, files]) => [name, own(files)]))
  const known = new Set([...bySuite.values()].flatMap((files) => [...files]))
  return { bySuite, byNobody: runner.filter((name) => !known.has(name)) }
}
