import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { decodeJwt, decodeProtectedHeader } from 'jose'
import { openKeyFile, readKeyFile } from '../auth/key-file.ts'
import { type Config, type ConfigSources, loadConfig } from '../config.ts'
import { openClient } from './client.ts'
import { callOf } from './command.ts'
import { TOKEN_COMMANDS } from './token-command.ts'

describe('tokens of commands', () => {
  let folder = ''
  let sources: ConfigSources
  let config: Config
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'sluice-command-'))
    const secrets = join(folder, 'secrets')
    const flags = { 'data-dir': join(folder, 'data'), 'secrets-dir': secrets, 'auth.token-ttl-s': '120' }
    sources = { environment: {}, flags }
    config = loadConfig(sources)
    await openKeyFile(secrets, 'http://127.0.0.1:1/oidc', 'sluice')
  })
  after(() => rm(folder, { recursive: true }))

  const lifeOf = async (flags: Readonly<Record<string, string>>): Promise<number> => {
    const args = { words: [], flags: { role: 'admin', ...flags } }
    const { iat = 0, exp = 0 } = decodeJwt(String(await TOKEN_COMMANDS['token']?.run(callOf(args, [], sources))))
    return exp - iat
  }

  it('last as long as the configuration says, or as they are asked for', async () => {
    assert.equal(await lifeOf({}), 120)
    assert.equal(await lifeOf({ ttl: '2h' }), 7200)
    await assert.rejects(lifeOf({ ttl: '2 days' }), /--ttl/)
  })

  it('are signed with a new key after a rotation, and the former key stays known', async () => {
    const args = { words: [], flags: { role: 'admin' } }
    const keyOf = async () =>
      decodeProtectedHeader(String(await TOKEN_COMMANDS['token']?.run(callOf(args, [], sources)))).kid
    const former = await keyOf()
    await TOKEN_COMMANDS['token rotate-keys']?.run(callOf(args, [], sources))
    assert.notEqual(await keyOf(), former)
    const { keys } = await readKeyFile(config.secrets_dir)
    assert.ok(keys.some(({ kid, retireAt }) => kid === former && retireAt !== null))
  })

  it('are signed with the keys of secrets_dir, also where that is not the data folder', async () => {
    let sent = ''
    const server = createServer((request, response) => {
      sent = request.headers.authorization ?? ''
      response.setHeader('content-type', 'application/json').end('{}')
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    try {
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
      const client = await openClient({ words: [], flags: { url, tenant: 'acme' } }, async () => config)
      await client.request('GET', '/')
      assert.equal(decodeJwt(sent.slice('Bearer '.length))['tenant_id'], 'acme')
    } finally {
      server.close()
    }
  })
})
