/** PyIceberg beside the live demo, where a Python has it: `DEMO_PYTHON` names one, else it is looked for on the path. */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface, type Interface } from 'node:readline'
import { promisify } from 'node:util'
import type { Json } from './api.ts'

const LOOK_TIMEOUT_MS = 60_000

export class IcebergReader {
  readonly #child: ChildProcess
  readonly #lines: Interface
  readonly #answers: ((answer: Json) => void)[] = []
  #hasEnded = false

  private constructor(child: ChildProcess) {
    this.#child = child
    this.#lines = createInterface({ input: child.stdout as NodeJS.ReadableStream })
    this.#lines.on('line', (line) => this.#answers.shift()?.(JSON.parse(line) as Json))
    child.once('close', () => {
      this.#hasEnded = true
      for (const answer of this.#answers.splice(0)) answer({ error: 'Python has ended' })
    })
    // It may have ended before it was asked.
    child.stdin?.on('error', () => undefined)
  }

  /** Null where no Python here has PyIceberg. `log` is an open file for what it says besides. */
  static async start(settings: Json, log: number): Promise<IcebergReader | null> {
    const python = await findPython()
    if (python === null) return null
    const program = join(import.meta.dirname, 'live-iceberg.py')
    // Apart: Ctrl-C is for the demo, which still has rows to compare.
    const child = spawn(python, [program], { stdio: ['pipe', 'pipe', log], detached: true })
    child.stdin?.write(`${JSON.stringify(settings)}\n`)
    return new IcebergReader(child)
  }

  /** What live-iceberg.py answers to it; `error` says why it could not. */
  ask(request: Json): Promise<Json> {
    if (this.#hasEnded) return Promise.resolve({ error: 'Python has ended' })
    return new Promise((resolve) => {
      this.#answers.push(resolve)
      this.#child.stdin?.write(`${JSON.stringify(request)}\n`)
    })
  }

  async stop(): Promise<void> {
    if (this.#hasEnded) return
    const ended = new Promise((resolve) => this.#child.once('close', resolve))
    this.#child.kill('SIGKILL')
    await ended
  }
}

async function findPython(): Promise<string | null> {
  const { DEMO_PYTHON: named } = process.env
  for (const python of named === undefined ? ['python3', 'python'] : [named]) {
    const found = await promisify(execFile)(python, ['-c', 'import pyiceberg.catalog.rest, pyarrow'], {
      timeout: LOOK_TIMEOUT_MS,
    }).then(
      () => true,
      () => false,
    )
    if (found) return python
  }
  return null
}
