/** The session that calls hand on: what it costs the source, and calls that have ended well. */
import assert from 'node:assert/strict'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { after, before, test } from 'node:test'
import type { Clock } from '@sluice/sdk'
import { createConnector } from './connector.ts'
import { IDLE_MS } from './kept-session.ts'
import { CLEAR_TIMEOUT_MS } from './session.ts'
import { parseSettings } from './settings.ts'
import { sourceHost } from './source-host.ts'
import { type SourceServer, startSource } from './source-server.ts'

const signal = new AbortController().signal
const PAGE = { after: null, limit: 10 }
let source: SourceServer

before(async () => {
  source = await startSource()
})
after(() => source?.stop())

/** A host whose clock calls `due` instead, where it is to wait for so long. */
function hostWith(waitMs: number, due: Clock['every']) {
  const host = sourceHost()
  const every: Clock['every'] = (ms, run) => (ms === waitMs ? due : host.clock.every)(ms, run)
  return { ...host, clock: { ...host.clock, every } }
}

const open = (host: ReturnType<typeof hostWith>, port = source.settings.port) =>
  createConnector(parseSettings({ ...source.settings, port, ssl_mode: 'disable' }), host)

interface Wire {
  readonly port: number
  /** All that the server has sent. */
  heard(): string
  close(): Promise<void>
}

/** Passes on what is said, until the client says one of `last`. */
async function startWire(last: RegExp): Promise<Wire> {
  const sockets: Socket[] = []
  const heard: Buffer[] = []
  const server: Server = createServer((client) => {
    const line = connect(source.settings.port, source.settings.host)
    sockets.push(client, line)
    let isCut = false
    client.on('data', (data) => {
      isCut ||= last.test(data.toString('latin1'))
      if (!isCut) line.write(data)
    })
    line.on('data', (data) => {
      heard.push(data)
      client.write(data)
    })
    for (const [one, other] of [
      [client, line],
      [line, client],
    ] as const) {
      one.on('error', () => undefined)
      one.on('close', () => other.destroy())
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as { readonly port: number }).port,
    heard: () => Buffer.concat(heard).toString('latin1'),
    close: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const CALLS = {
  'a look at its tables': (connector: ReturnType<typeof open>) => connector.discover(PAGE, signal),
  'a call of the log': (connector: ReturnType<typeof open>) =>
    connector.changes?.health({ capture: 'none', saved: null, signal }),
} as const

for (const [name, call] of Object.entries(CALLS)) {
  test(`${name} has come to its end, though the server falls silent after it`, { timeout: 60_000 }, async () => {
    const wire = await startWire(/ROLLBACK|RESET ALL|DISCARD/)
    const host = hostWith(CLEAR_TIMEOUT_MS, (_, run) => {
      const timer = setTimeout(() => void run(), 50)
      return () => clearTimeout(timer)
    })
    const connector = open(host, wire.port)
    try {
      assert.ok(await call(connector))
    } finally {
      await connector.close()
      await wire.close()
    }
  })

  test(`${name} has the server warn of nothing`, async () => {
    const wire = await startWire(/^never$/)
    const connector = open(
      hostWith(IDLE_MS, () => () => undefined),
      wire.port,
    )
    try {
      for (let turn = 0; turn < 3; turn += 1) assert.ok(await call(connector))
      assert.doesNotMatch(wire.heard(), /WARNING/)
    } finally {
      await connector.close()
      await wire.close()
    }
  })
}
