/** Brokers that mean ill: what they say ends the call in words, at once or by its deadline, and leads nowhere that is not allowed. */
import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { afterEach, test } from 'node:test'
import { type ConnectorHost, isSluiceError } from '@sluice/sdk'
import plugin from './index.ts'
import {
  type Answers,
  broker,
  closeBrokers,
  fetched,
  hostWith,
  metadata,
  offsets,
  VERSIONS,
} from './scripted-broker.fixture.ts'
import { WireWriter } from './wire/bytes.ts'

afterEach(closeBrokers)

/** Time that a test moves, so that none waits for a deadline. */
function hostOf(asked: string[]): { readonly host: ConnectorHost; passTime(): void } {
  const timers = new Set<() => void>()
  const clock = {
    nowMs: () => 0,
    every: (_: number, run: () => void) => {
      timers.add(run)
      return () => void timers.delete(run)
    },
  }
  return {
    host: hostWith(clock, asked),
    passTime: () => {
      for (const run of [...timers]) run()
    },
  }
}

async function reading(
  port: number,
  { host, passTime }: ReturnType<typeof hostOf>,
  isSilent = false,
): Promise<unknown> {
  const connector = await plugin.open({ brokers: [`127.0.0.1:${port}`], tls: false, topics: ['orders'] }, host)
  const request = {
    ...({
      schema: 'kafka',
      table: 'orders',
      mode: 'full',
      columns: [],
      primaryKey: [],
      cursorColumn: null,
      state: null,
    } as const),
    signal: new AbortController().signal,
  }
  // Pauses before another try end at once; a deadline ends where a broker is meant to be silent.
  const timer = setInterval(passTime, isSilent ? 200 : 1000)
  try {
    return await Array.fromAsync(connector.read(request)).catch((error: unknown) => error)
  } finally {
    clearInterval(timer)
    await connector.close()
  }
}

test('an address that a broker names is asked for like one of the settings, and not gone to where it is refused', async () => {
  const asked: string[] = []
  const port = await broker(() => (api) => (api === 18 ? VERSIONS : metadata('169.254.169.254', 80)))
  const failure = await reading(port, hostOf(asked))
  assert.ok(isSluiceError(failure, 'PERMISSION') && failure.code === 'address_refused', String(failure))
  assert.ok(asked.includes('169.254.169.254:80'), asked.join())
})

const flooding = (line: Socket) => {
  line.write(Buffer.from([0x7f, 0xff, 0xff, 0xff]))
  const more = () => {
    while (!line.destroyed && line.write(Buffer.alloc(65_536))) {
      // Until it is full.
    }
  }
  line.on('drain', more)
  more()
}

const LIES: Readonly<Record<string, (line: Socket) => void>> = {
  'an answer of 2 GiB': flooding,
  'an answer of less than nothing': (line) => void line.write(Buffer.from([0xff, 0xff, 0xff, 0xff, 0])),
  'an answer to another question': (line) => void line.write(Buffer.from([0, 0, 0, 6, 0, 0, 0, 99, 0, 0])),
  'an answer that goes on': (line) => void line.write(Buffer.concat([Buffer.from([0, 0, 0, 4]), Buffer.alloc(64)])),
  'words of another protocol': (line) => void line.write('HTTP/1.1 400 Bad Request\r\n\r\n'),
}

for (const [name, lie] of Object.entries(LIES))
  test(`${name} is no answer`, async () => {
    const failure = await reading(await broker(() => () => null, lie), hostOf([]))
    assert.ok(isSluiceError(failure, 'INVALID_DATA') && failure.code === 'source_answer_invalid', String(failure))
  })

test('a broker that says nothing ends by the deadline', async () => {
  const failure = await reading(await broker(() => () => null), hostOf([]), true)
  assert.ok(isSluiceError(failure, 'TRANSIENT') && failure.code === 'source_timeout', String(failure))
})

test('counts that announce more than there is, and clusters without end, are refused', async () => {
  const many = new WireWriter().noTags().int32(0).uvarint(0xffff_fff0).done()
  for (const answer of [many, metadata('127.0.0.1', 1, 65), metadata('127.0.0.1', 1).subarray(0, 40)]) {
    const failure = await reading(await broker(() => (api) => (api === 18 ? VERSIONS : answer)), hostOf([]))
    assert.ok(isSluiceError(failure, 'INVALID_DATA'), String(failure))
  }
})

test('records that are none end the read in words', async () => {
  for (const records of [
    Buffer.alloc(61),
    Buffer.from(`${'00'.repeat(8)}7fffffff${'00'.repeat(70)}`, 'hex'),
    Buffer.alloc(200, 255),
  ]) {
    const answers = (port: number): Answers => {
      let asked = 0
      return (api) => {
        if (api === 18) return VERSIONS
        if (api === 3) return metadata('127.0.0.1', port)
        if (api === 2) return offsets(asked++ % 2 === 0 ? 0 : 9)
        return fetched(records)
      }
    }
    const byPort = new Map<number, Answers>()
    const port = await broker((own) => {
      const known = byPort.get(own) ?? answers(own)
      byPort.set(own, known)
      return known
    })
    const failure = await reading(port, hostOf([]))
    assert.ok(isSluiceError(failure, 'INVALID_DATA') && failure.code === 'source_answer_invalid', String(failure))
  }
})
