/** A program that means ill is refused in words of ours, reaches nothing of others, and leaves nothing behind. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { Connector, SluiceError } from '@sluice/sdk'
import { until } from '../../test/until.ts'
import { Bench, fakeFolder, fakeProgram, readAll, remove } from './airbyte-bench.fixture.ts'

const SECRET = 'hunter2-very-secret'
let folder: string
let bench: Bench
let server: Server

before(async () => {
  folder = await fakeFolder()
  const program = fakeProgram(folder)
  bench = new Bench({ fake: program, others: { ...program, tenants: ['globex'] } })
  server = createServer((socket) => socket.on('error', () => {})).listen(0, '127.0.0.1')
  await writeFile(join(folder, '..', 'sluice-airbyte-secret'), SECRET, { mode: 0o644 })
})

after(async () => {
  server?.close()
  await bench?.close()
  await remove(folder)
  await remove(join(folder, '..', 'sluice-airbyte-secret'))
})

async function read(what: string, silenceS?: number, more: object = {}) {
  const connector = await bench.open('fake', { do: what, secret: SECRET, ...more }, 'acme', silenceS)
  try {
    return await readAll(connector, 't', { mode: 'incremental', primaryKey: ['id'], cursorColumn: 'changed' })
  } finally {
    await connector.close()
    await nothingLeft()
  }
}

/** Processes that work for a program, in whatever room: of the fake's file, or of those that keep one. */
function leftOver(): readonly string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ')
      } catch {
        return ''
      }
    })
    .filter((line) => line.includes(folder))
}

const nothingLeft = () => until('no process of the program is left', async () => leftOver().length === 0)

/** Refused with that code, and not a word of the program's. */
async function refusedWith(code: string | readonly string[], work: Promise<unknown>): Promise<void> {
  await assert.rejects(work, (error: SluiceError) => {
    assert([code].flat().includes(error.code), `${error.code}: ${error.message}`)
    const said = `${error.message} ${error.remedy} ${JSON.stringify(error.details)} ${String(error.cause)}`
    assert(!said.includes(SECRET), said)
    return true
  })
}

/** What it may have is refused to it, which it may die of, or it is ended for having had it: whatever comes first. */
const BOUNDED = ['source_memory_exceeded', 'source_program_failed']

describe('what has no end, no measure or no sense', () => {
  const CASES: readonly (readonly [what: string, code: string | readonly string[], silenceS?: number])[] = [
    ['endless line', 'source_answer_invalid'],
    ['endless log', 'source_timeout', 3],
    ['memory', BOUNDED],
    ['bomb', BOUNDED],
    ['crash', 'source_program_failed'],
    ['secrets', 'source_config_refused'],
  ]
  for (const [what, code, silenceS] of CASES) it(what, () => refusedWith(code, read(what, silenceS)))

  it('a grandchild that has left its family is gone with it', async () => {
    assert.equal((await read('orphan')).lines.length, 1)
  })
  it('nothing that a program says is logged', () => {
    assert(!bench.logged.join('\n').includes(SECRET), bench.logged.join('\n'))
  })
})

describe('the walls', () => {
  it('let it do in its folder what it likes, and reach what connections may, by its gate alone', async () => {
    const { port } = server.address() as { readonly port: number }
    const { lines } = await read('probe', undefined, { port, secret_file: join(folder, '..', 'sluice-airbyte-secret') })
    const found = lines.map((line) => /"([a-z ]+: \w+)"/.exec(line)?.[1] ?? line)
    const done = found.filter((text) => text.endsWith(': done')).map((text) => text.slice(0, text.indexOf(':')))
    assert.deepEqual(done, ['write own', 'proxy allowed'], found.join('\n'))
    assert.equal(found.length, 19)
  })

  it('end it where its reader stops, and where its caller does', async () => {
    const connector = await bench.open('fake', { do: 'endless log' })
    const stop = new AbortController()
    const reading = readAll(connector, 't', { signal: stop.signal })
    await until('it runs', async () => leftOver().length > 0)
    stop.abort()
    await assert.rejects(reading)
    await nothingLeft()
    await connector.close()
  })
})

describe('who may use what', () => {
  const opened = async (name: string, config: object, tenant?: string) => {
    const connector: Connector = await bench.open(name, config, tenant)
    try {
      return await connector.discover({ after: null, limit: 10 }, new AbortController().signal)
    } finally {
      await connector.close()
    }
  }
  it('refuses programs that are not for the tenant as those that are not there', async () => {
    await refusedWith('program_refused', opened('others', {}))
    await refusedWith('program_refused', opened('absent', {}))
    assert.equal((await opened('others', {}, 'globex')).tables.length, 1)
  })
  it('refuses manifests and code that a connection brings along', async () => {
    for (const field of ['__injected_declarative_manifest', '__injected_components_py', '__test_read_config'])
      for (const config of [{ [field]: {} }, { nested: [{ [field]: 'x' }] }])
        await refusedWith('settings_invalid', opened('fake', config))
  })
})
