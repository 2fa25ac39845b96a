import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import type { EngineRun, OutputSummary } from './job.ts'
import { twiceAtMost } from './second-try.ts'

const crashed = () => new SluiceError('TRANSIENT', 'it ended', { code: 'engine_crashed' })
const late = () => new SluiceError('QUOTA', 'it is late', { code: 'query_timeout' })
const ownFault = () =>
  new SluiceError('INTERNAL', 'it failed', { code: 'engine_failed', cause: new Error('INTERNAL Error: oh') })
const unknownKind = () =>
  new SluiceError('INTERNAL', 'it failed', { code: 'engine_failed', cause: new Error('Sequence Error: oh') })
const faultOfOurs = () =>
  new SluiceError('INTERNAL', 'it failed', { code: 'engine_failed', cause: new Error('x is not a function') })

/** What one attempt does: fails at once, or gives bytes and ends or fails. */
type Try = Error | readonly (Buffer | Error)[]

function runOf(parts: readonly (Buffer | Error)[]): EngineRun {
  const finished = Promise.withResolvers<OutputSummary>()
  finished.promise.catch(() => {})
  async function* output() {
    try {
      for (const part of parts) {
        if (part instanceof Error) throw part
        yield part
      }
      finished.resolve({ rows: parts.length, bytes: 1, truncated: false })
    } catch (error) {
      finished.reject(error)
      throw error
    }
  }
  return { results: [], columns: [], lineage: [], files: [], output: output(), finished: finished.promise }
}

/** What a reader gets of the given attempts, and how many were made. */
async function told(
  tries: readonly Try[],
): Promise<{ readonly text: string; readonly end: string; readonly made: number }> {
  let made = 0
  let text = ''
  const attempt = async () => {
    const one = tries[made++]
    if (one === undefined || one instanceof Error) throw one ?? new Error('one attempt too many')
    return runOf(one)
  }
  try {
    const run = await twiceAtMost(attempt, true)
    try {
      for await (const chunk of run.output) text += Buffer.from(chunk).toString('latin1')
    } catch (error) {
      await assert.rejects(run.finished, (other) => other === error)
      throw error
    }
    return { text, end: `${(await run.finished).rows} rows`, made }
  } catch (error) {
    return { text, end: isSluiceError(error) ? error.code : String(error), made }
  }
}

const rows = Buffer.from('rows')
const more = Buffer.from('more')
const large = Buffer.alloc(70_000, 'x')

describe('a statement in which the engine fails', () => {
  it('is tried once more, wherever it failed, and its reader sees the second try alone', async () => {
    for (const first of [crashed(), ownFault(), [crashed()], [rows, crashed()], [rows, ownFault()]]) {
      assert.deepEqual(await told([first, [more]]), { text: 'more', end: '1 rows', made: 2 })
    }
  })

  it('fails by itself where it fails twice', async () => {
    const failing = [crashed(), ownFault(), unknownKind(), [crashed()], [rows, crashed()]]
    for (const first of failing) {
      for (const second of failing) {
        assert.deepEqual(await told([first, second]), { text: '', end: 'query_failed', made: 2 })
      }
    }
  })

  it('is not tried again once rows were given away', async () => {
    const { text, end, made } = await told([[large, crashed()]])
    assert.deepEqual({ length: text.length, end, made }, { length: 70_000, end: 'engine_crashed', made: 1 })
  })
})

describe('any other failure', () => {
  it('is told as it is, at once', async () => {
    for (const error of [late(), faultOfOurs()]) {
      assert.deepEqual(await told([error]), { text: '', end: error.code, made: 1 })
      assert.deepEqual(await told([[rows, error]]), { text: '', end: error.code, made: 1 })
      assert.equal((await told([crashed(), error])).end, error.code)
    }
  })
})
