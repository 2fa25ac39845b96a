import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Principal } from '../../flow.ts'
import { checkClasses } from './column-classes.ts'

const dora = { issuer: 'urn:test', subject: 'dora' }
const dan = { issuer: 'urn:test', subject: 'dan' }
const as = (person: typeof dora, isAdmin = false) => ({ principal: { ...person, isAdmin } as Principal })
const owners = (...actors: readonly (typeof dora | null)[]) => actors
const lowering = (...columns: readonly string[]) => ({ columns, opens: false })
const refused = { code: 'class_lowering_refused' }

test('classes are lowered by the owner of every source, or an administrator', () => {
  const product = { createdBy: dan }
  assert.deepEqual(checkClasses(as(dora), product, lowering('email', 'email'), owners(dora)), ['email'])
  assert.deepEqual(checkClasses(as(dan, true), product, lowering('email'), owners(dora)), ['email'])
  assert.throws(() => checkClasses(as(dan), product, lowering('email'), owners(dora)), refused)
  assert.throws(() => checkClasses(as(dora), product, lowering('email'), owners(dora, dan)), refused)
  assert.throws(() => checkClasses(as(dora), product, lowering('email'), owners(dora, null)), refused, 'one is gone')
  assert.deepEqual(checkClasses(as(dan), product, lowering(), owners(dora)), [])
  const opening = { columns: [], opens: true }
  assert.throws(() => checkClasses(as(dan), product, opening, owners(dora)), refused)
  assert.deepEqual(checkClasses(as(dora), product, opening, owners(dora)), [])
})

test('classes of a product without sources that anybody owns are lowered by its creator', () => {
  const product = { createdBy: dora }
  assert.throws(() => checkClasses(as(dan), product, lowering('email'), owners()), refused)
  assert.deepEqual(checkClasses(as(dora), product, lowering('email'), owners()), ['email'])
})
