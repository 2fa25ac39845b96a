/** What a pipelined connection does with a server that says nothing any more. */
import assert from 'node:assert/strict'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { test } from 'node:test'
import { isConnectionLoss } from './driver-errors.ts'
import { type PostgresFixture, startPostgres } from './fixture.ts'
import { Lane } from './one-sync.ts'
import { parseLogin } from './settings.ts'

/** The first is enough on an idle machine; a slow one may not answer a read within it. */
const SILENCES_MS = [300, 3_000, 20_000]

/** A way to the server that can be cut: nothing passes, and nobody is told. */
async function cuttableWay(target: { readonly host: string; readonly port: number }) {
  const ends: Socket[] = []
  const server = createServer((client) => {
    const { host, port } = target
    const behind = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(target)
    ends.push(client, behind)
    client.on('error', () => undefined).pipe(behind)
    behind.on('error', () => undefined).pipe(client)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    cut() {
      for (const end of ends) end.unpipe().pause()
    },
    close() {
      for (const end of ends) end.destroy()
      server.close()
    },
  }
}

test('a connection on which reads wait in silence is lost, and one that is idle is not', async (t) => {
  const postgres = await startPostgres()
  t.after(() => postgres.stop())
  for (const silenceMs of SILENCES_MS) {
    const failure = await holds(postgres, silenceMs).then(
      () => null,
      (error: unknown) => ({ error }),
    )
    if (failure === null) return
    if (silenceMs === SILENCES_MS.at(-1)) throw failure.error
  }
})

async function holds(postgres: PostgresFixture, silenceMs: number): Promise<void> {
  const { config } = parseLogin('reader', postgres.settings.reader)
  const way = await cuttableWay({ host: String(config.host), port: Number(config.port) })
  let isLost = false
  const onLost = () => {
    isLost = true
  }
  const lane = await Lane.connect({ ...config, host: '127.0.0.1', port: way.port }, onLost, silenceMs)
  const read = () => lane.read('acme', 'generic', [{ text: 'select 1', values: [] }])
  try {
    assert.deepEqual(await read(), [[['1']]])
    await new Promise((resolve) => setTimeout(resolve, silenceMs * 5))
    assert.deepEqual([isLost, await read()], [false, [[['1']]]])
    way.cut()
    await assert.rejects(read(), (error) => isConnectionLoss(error))
    assert.equal(isLost, true)
  } finally {
    way.close()
  }
}
