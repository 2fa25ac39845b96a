import assert from 'node:assert/strict'
import { it } from 'node:test'
import { isSluiceError } from '@sluice/sdk'
import { type DatabaseAddress, formatAddress, parseAddress } from './address.ts'

const base: DatabaseAddress = {
  host: 'db.example.org',
  port: 6543,
  database: 'a b/c',
  user: 'us:er@x',
  password: 'p%a:s/s@w?o#rd',
  tls: 'verify-full',
}

it('writes every address as a URL that it reads back', () => {
  for (const change of [
    {},
    { host: '/run/a folder/socket', tls: 'disable' },
    { host: '::1', tls: 'disable' },
    { host: '127.0.0.1', tls: 'require' },
    { tls: 'require', password: '' },
  ] as const) {
    const address = { ...base, ...change }
    assert.deepEqual(parseAddress(formatAddress(address)), address)
  }
})

it('asks for verified TLS unless the URL says otherwise or the server is on this machine', () => {
  assert.equal(parseAddress('postgresql://u:p@db.example.org/d').tls, 'verify-full')
  assert.equal(parseAddress('postgresql://u:p@127.0.0.1/d').tls, 'disable')
  assert.equal(parseAddress('postgresql://u:p@127.evil.example/d').tls, 'verify-full')
  assert.equal(parseAddress('postgresql://u:p@localhost/d?host=/run').tls, 'disable')
  assert.equal(parseAddress('postgresql://u:p@db.example.org/d').port, 5432)
})

it('refuses what it cannot read without repeating it', () => {
  for (const url of ['', 'postgresql://secret@', 'mysql://u:secret@h/d', 'postgresql://u:secret@h/d?sslmode=prefer']) {
    assert.throws(
      () => parseAddress(url),
      (error) =>
        isSluiceError(error, 'CONFIG') && error.code === 'database_url_invalid' && !/secret/.test(error.message),
    )
  }
})
