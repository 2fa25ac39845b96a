/** One statement in a process of Python: a line of JSON for what is to be done, then one for each page that is asked for. */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { SluiceError, type TextRow } from '@sluice/sdk'

export interface Job {
  readonly catalog: Readonly<Record<string, string>>
  readonly memory_mb: number
  readonly inputs: readonly object[]
  /** What the author wrote, by itself. */
  readonly authored: string
  readonly sql: string
}

export type Answer =
  | { readonly types: readonly string[] }
  | { readonly rows: readonly TextRow[] }
  | { readonly error: string; readonly of: 'author' | 'memory' | 'engine' }

export interface Bounds {
  readonly python: string
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

const ENGINE = join(import.meta.dirname, 'engine.py')

/**
 * What it answers: the types first, then pages until one is empty. Another is computed when it is asked for; leaving early ends the
 * process. Throws as the contract has it.
 */
export async function* answersOf(job: Job, { python, timeoutMs, signal }: Bounds): AsyncGenerator<Answer> {
  const deadline = AbortSignal.timeout(timeoutMs)
  const child = spawn(python, ['-I', ENGINE], {
    stdio: ['pipe', 'pipe', 'ignore'],
    env: {},
    signal: AbortSignal.any([signal, deadline]),
    killSignal: 'SIGKILL',
  })
  const ended = new Promise<unknown>((resolve) => child.once('error', resolve).once('exit', () => resolve(null)))
  // Of a process that has ended, its end says more.
  child.stdin.on('error', () => undefined)
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  try {
    for (let asked = JSON.stringify(job); ; asked = 'more') {
      child.stdin.write(`${asked}\n`)
      const line = await lines.next()
      if (line.done) throw await endOf(ended, deadline, timeoutMs)
      const answer = JSON.parse(line.value) as Answer
      if ('error' in answer) throw failure(answer)
      yield answer
      if ('rows' in answer && answer.rows.length === 0) return
    }
  } finally {
    child.kill('SIGKILL')
  }
}

async function endOf(ended: Promise<unknown>, deadline: AbortSignal, timeoutMs: number): Promise<SluiceError> {
  const cause = await ended
  if (!deadline.aborted) return unavailable(cause)
  return new SluiceError('QUOTA', `the transform took longer than ${timeoutMs} ms`, {
    code: 'query_timeout',
    remedy: 'Read fewer rows, or raise resources.timeout where that is allowed.',
    details: { timeout_ms: timeoutMs },
  })
}

function failure({ error, of }: Extract<Answer, { readonly error: string }>): SluiceError {
  if (of === 'engine') return unavailable(error)
  if (of === 'memory')
    return new SluiceError('QUOTA', 'the engine has not enough for the transform', {
      code: 'query_memory_exceeded',
      remedy: 'Aggregate earlier, read fewer columns, or raise memory_mb.',
    })
  // The name of the problem alone: its text may hold values.
  return new SluiceError('INVALID_DATA', `the engine cannot run the transform: ${error}`, {
    code: 'sql_invalid',
    remedy: 'Correct the SQL in compute.yaml.',
  })
}

function unavailable(cause: unknown): SluiceError {
  return new SluiceError('TRANSIENT', 'the engine for transforms does not answer', {
    code: 'store_failed',
    remedy: 'Check that its Python has what it needs, and reaches the catalog and the files.',
    cause,
  })
}
