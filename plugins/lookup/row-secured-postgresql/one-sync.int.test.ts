/** What a pipelined connection does with a server that says nothing any more. */
import assert from 'node:assert/strict'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { test } from 'node:test'
import { isConnectionLoss } from './driver-errors.ts'
import { startPostgres } from './fixture.ts'
import { Lane } from './one-sync.ts'
import { parseLogin } from './settings.ts'

const SILENCE_MS = 300

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

test('a connection on which reads wait in silence is lost, and one that is idle is not', {
  timeout: 60_000,
}, async (t) => {
  const postgres = await startPostgres()
  t.after(() => postgres.stop())
  const { config } = parseLogin('reader', postgres.settings.reader)
  const way = await cuttableWay({ host: String(config.host), port: Number(config.port) })
  t.after(() => way.close())
  let isLost = false
  const onLost = () => {
    isLost = true
  }
  const lane = await Lane.connect({ ...config, host: '127.0.0.1', port: way.port }, onLost, SILENCE_MS)
  const read = () => lane.read('acme', 'generic', [{ text: 'select 1', values: [] }])
  assert.deepEqual(await read(), [[['1']]])
  await new Promise((resolve) => setTimeout(resolve, SILENCE_MS * 5))
  assert.deepEqual([isLost, await read()], [false, [[['1']]]])
  way.cut()
  await assert.rejects(read(), (error) => isConnectionLoss(error))
  assert.equal(isLost, true)
})
