/** What the process of a source has loaded of connectors. */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import { pathToFileURL } from 'node:url'
import { childrenOf } from '@sluice/engine/process-table'
import type { ConnectorHost, ConnectorPlugin } from '@sluice/sdk'
import { createNetworkPolicy } from './network.ts'
import { SourceReaders } from './source-readers.ts'

const LONG_MS = 600_000

/** Its check tells which of these modules the process has, those without a connector that was asked for too. */
const moduleOf = (name: string) => `
  globalThis.loaded = [...(globalThis.loaded ?? []), '${name}']
  const connector = {
    check: async () => {
      const message = globalThis.loaded.join(' ') + ' env:' + Object.keys(process.env).join(' ')
      return { ok: true, latencyMs: 0, steps: [{ name: 'auth', ok: true, message }] }
    },
    close: async () => undefined,
  }
  export default {
    settingsSchema: { type: 'object', properties: {} },
    capabilities: { modes: ['full'] },
    open: async () => connector,
  }`

const LIMITS = {
  maxReaders: 2,
  memoryBytes: 256 * 1024 * 1024,
  silenceMs: LONG_MS,
  callMs: LONG_MS,
  readMs: LONG_MS,
  privateFolders: [],
}

let folder: string
let readers: SourceReaders
const plugins = new Map<string, ConnectorPlugin>()

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-connectors-'))
  readers = new SourceReaders(LIMITS)
  for (const name of ['one', 'two', 'three']) {
    const file = join(folder, `${name}.mjs`)
    await writeFile(file, moduleOf(name))
    const { href } = pathToFileURL(file)
    plugins.set(name, readers.wall(((await import(href)) as { default: ConnectorPlugin }).default, href))
  }
})
after(async () => {
  await readers?.close()
  await rm(folder, { recursive: true, force: true })
})

function hostOf(): ConnectorHost {
  const nothing = () => undefined
  return {
    logger: { debug: nothing, info: nothing, warn: nothing, error: nothing },
    network: createNetworkPolicy({
      allow: [],
      allowLoopback: false,
      allowCleartextPasswords: false,
      ownEndpoints: () => [],
    }),
  } as unknown as ConnectorHost
}

async function loadedFor(name: string): Promise<string> {
  const connector = await (plugins.get(name) as ConnectorPlugin).open({}, hostOf())
  try {
    const { steps } = await connector.check(AbortSignal.timeout(LONG_MS))
    return steps[0]?.message ?? ''
  } finally {
    await connector.close()
  }
}

it('a process that is not ready in time is told as that, while there are places', async () => {
  const hasty = new SourceReaders({ ...LIMITS, callMs: 1 })
  const file = join(folder, 'one.mjs')
  const { href } = pathToFileURL(file)
  const walled = hasty.wall(((await import(href)) as { default: ConnectorPlugin }).default, href)
  const connector = await walled.open({}, hostOf())
  try {
    const asked = connector.discover({ after: null, limit: 1 }, AbortSignal.timeout(LONG_MS))
    await assert.rejects(asked, { kind: 'TRANSIENT', code: 'source_reader_late' })
  } finally {
    await connector.close()
    await hasty.close()
  }
})

it('a process has the connector that it is asked for, at most one that was likely, and none of its environment', async () => {
  assert.equal(await loadedFor('one'), 'one env:')
  // It may have been started before it was known what for.
  assert.match(await loadedFor('two'), /^(one )?two env:$/)
  assert.match(await loadedFor('two'), /^(one )?two env:$/)
  assert.match(await loadedFor('one'), /^(two )?one env:$/)
})

it('answers on where a terminal or a manager of services tells all of the runtime to stop', async () => {
  const connector = await (plugins.get('one') as ConnectorPlugin).open({}, hostOf())
  const check = async () => (await connector.check(AbortSignal.timeout(LONG_MS))).ok
  try {
    assert.equal(await check(), true)
    for (const pid of childrenOf(process.pid)) {
      for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.kill(pid, signal)
    }
    assert.equal(await check(), true)
  } finally {
    await connector.close()
  }
})
