import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { isAnothersClearedLogin } from './rights.ts'
import type { KafkaSettings } from './settings.ts'

const settings = (reader: string, cleared: string) =>
  ({ reader_principal: reader, cleared_principal: cleared }) as KafkaSettings

describe('names of logins that meet', () => {
  const SLUGS = ['acme', 'acme-cleared', 'cleared-acme', 'acme-cleared-cleared', 'a-c', 'cleared']

  it('are found for every tenant whose login is the cleared one of another', () => {
    for (const [reader, cleared, met] of [
      ['User:{tenant}', 'User:{tenant}-cleared', ['acme-cleared', 'acme-cleared-cleared']],
      ['User:{tenant}', 'User:cleared-{tenant}', ['cleared-acme']],
      ['User:{tenant}', 'User:{tenant}--cleared', []],
      ['User:{tenant}', 'User:{tenant}.cleared', []],
      ['User:r-{tenant}', 'User:c-{tenant}', []],
      ['User:{tenant}', 'User:{tenant}', []],
      ['User:{tenant}', 'User:acme', ['acme']],
      ['User:{tenant}', 'User:{tenant}-{tenant}', []],
    ] as const) {
      const found = SLUGS.filter((slug) => isAnothersClearedLogin(settings(reader, cleared), slug))
      assert.deepEqual(found, met, `${reader} and ${cleared}`)
    }
  })

  it('and not where nobody has clear topics', () => {
    assert.equal(isAnothersClearedLogin({} as KafkaSettings, 'acme-cleared'), false)
  })
})
