import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { isSluiceError } from '@sluice/sdk'
import { loadConfig } from '../config.ts'
import { Reception } from '../http/reception.ts'
import { type FurtherOptions, FurtherProcesses } from './further-processes.ts'

const config = loadConfig({ environment: {}, flags: { 'http.processes': '2' } })

function furtherOf(clear: FurtherOptions['clear'], said: string[] = []): FurtherProcesses {
  const note = (message: string) => void said.push(message)
  return new FurtherProcesses({
    begin: { config, url: 'http://localhost', stores: {}, databases: {} as never },
    reception: new Reception({ host: '127.0.0.1', port: 0, maxConnections: 1, maxPerAddress: null }),
    logger: { debug: note, info: note, warn: note, error: note },
    answers: {},
    clear,
    relay: note,
  })
}

test('a process that the system does not start is told of, and nothing else ends by it', async () => {
  const { execPath } = process
  const unheard: unknown[] = []
  const hear = (error: unknown) => void unheard.push(error)
  process.on('unhandledRejection', hear)
  process.execPath = '/nowhere/node'
  try {
    const cleared: number[] = []
    const said: string[] = []
    const further = furtherOf(async (index) => void cleared.push(index), said)
    await assert.rejects(further.start(), (error) => isSluiceError(error, 'TRANSIENT'))
    await sleep(20)
    assert.deepEqual(unheard, [])
    assert.deepEqual(cleared, [2])
    assert.match(said.join('\n'), /cannot be reached/)
    await further.stop(0)
  } finally {
    process.execPath = execPath
    process.off('unhandledRejection', hear)
  }
})

test('rows of a tenant are not said to be forgotten while what a process has left is there', async () => {
  const { execPath } = process
  process.execPath = '/nowhere/node'
  try {
    const gone = Promise.withResolvers<void>()
    const further = furtherOf(() => gone.promise)
    await assert.rejects(further.start())
    let isForgotten = false
    const forgetting = further.forgetRows('acme').then(() => {
      isForgotten = true
    })
    await sleep(20)
    assert.equal(isForgotten, false)
    gone.resolve()
    await forgetting
    const failing = furtherOf(async () => {
      throw new Error('it cannot be removed')
    })
    await assert.rejects(failing.start())
    await assert.rejects(failing.forgetRows('acme'), /it cannot be removed/)
  } finally {
    process.execPath = execPath
  }
})
