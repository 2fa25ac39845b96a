import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Principal } from '../flow.ts'
import type { Connection } from '../registry/connections.ts'
import { checkClasses } from './column-classes.ts'

const dora = { issuer: 'urn:test', subject: 'dora' }
const dan = { issuer: 'urn:test', subject: 'dan' }
const as = (person: typeof dora, isAdmin = false) => ({ principal: { ...person, isAdmin } as Principal })
const connections = (...owners: readonly (typeof dora)[]) =>
  new Map(owners.map((createdBy, at) => [`c${at}`, { createdBy } as Connection]))
const refused = { code: 'class_lowering_refused' }

test('classes are lowered by the owner of every source, or an administrator', () => {
  const product = { createdBy: dan }
  assert.deepEqual(checkClasses(as(dora), product, ['email', 'email'], connections(dora)), ['email'])
  assert.deepEqual(checkClasses(as(dan, true), product, ['email'], connections(dora)), ['email'])
  assert.throws(() => checkClasses(as(dan), product, ['email'], connections(dora)), refused)
  assert.throws(() => checkClasses(as(dora), product, ['email'], connections(dora, dan)), refused)
  assert.deepEqual(checkClasses(as(dan), product, [], connections(dora)), [])
})

test('classes of a product without sources that anybody owns are lowered by its creator', () => {
  const product = { createdBy: dora }
  assert.throws(() => checkClasses(as(dan), product, ['email'], connections()), refused)
  assert.deepEqual(checkClasses(as(dora), product, ['email'], connections()), ['email'])
})
