/** What every catalog must do. Each implementation's tests call this with a catalog of their own. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import type { Catalog } from './catalog.ts'
import type { TableRef } from './table-ref.ts'

const WRITERS = 8
const HOUR_MS = 3_600_000

/** @param warehouse one that is there; others whose names begin with it are not */
export function testCatalog(open: () => Catalog, warehouse: string): void {
  const newRef = (namespace = 'kept'): TableRef => ({ warehouse, namespace, table: `t_${randomUUID()}` })

  test('a pointer is made once, and moves only from where it is', async () => {
    const ref = newRef()
    assert.equal(await open().pointer(ref), null)
    assert.equal(await open().movePointer(ref, 'x:/0', 'x:/1'), false, 'there is none to move')
    assert.equal(await open().movePointer(ref, null, 'x:/1'), true)
    assert.equal(await open().movePointer(ref, null, 'x:/2'), false)
    assert.equal(await open().movePointer(ref, 'x:/0', 'x:/2'), false)
    assert.equal(await open().pointer(ref), 'x:/1')
    assert.equal(await open().movePointer(ref, 'x:/1', 'x:/2'), true)
    assert.equal(await open().pointer(ref), 'x:/2')
  })

  test('of many who move a pointer at once, one does', async () => {
    const ref = newRef()
    for (let round = 0; round < 5; round += 1) {
      const from = await open().pointer(ref)
      const moves = Array.from({ length: WRITERS }, (_, at) => `x:/${round}-${at}`)
      const moved = await Promise.all(moves.map((to) => open().movePointer(ref, from, to)))
      assert.equal(moved.filter(Boolean).length, 1)
      assert.equal(await open().pointer(ref), moves[moved.indexOf(true)])
    }
  })

  test('a table that was dropped is not there, and comes back only by being made anew', async () => {
    const ref = newRef('dropped')
    await open().dropPointer(ref)
    await open().movePointer(ref, null, 'x:/1')
    await open().dropPointer(ref)
    await open().dropPointer(ref)
    assert.equal(await open().pointer(ref), null)
    assert.deepEqual(await open().tables(warehouse, 'dropped'), [])
    assert.equal(await open().movePointer(ref, 'x:/1', 'x:/2'), false)
    assert.equal(await open().movePointer(ref, null, 'x:/3'), true)
    assert.equal(await open().pointer(ref), 'x:/3')
  })

  test('tables are listed by name, those of a namespace or all', async () => {
    const [b, a, other] = ['b', 'a', 'c'].map((name) => ({
      ...newRef(name === 'c' ? 'listed2' : 'listed'),
      table: name,
    }))
    assert.ok(a && b && other)
    for (const ref of [b, a, other]) await open().movePointer(ref, null, `x:/${ref.table}`)
    const listed = [a, b].map((ref) => ({ ref, metadataLocation: `x:/${ref.table}` }))
    assert.deepEqual(await open().tables(warehouse, 'listed'), listed)
    assert.deepEqual(
      (await open().tables(warehouse)).filter(({ ref }) => ref.namespace.startsWith('listed')),
      [...listed, { ref: other, metadataLocation: 'x:/c' }],
    )
    assert.deepEqual(await open().tables(`${warehouse}2`), [])
  })

  test('a writer’s lease lasts until it ends, and is never shortened', async () => {
    const ref = newRef()
    const [one, other] = [randomUUID(), randomUUID()]
    assert.equal(await open().hasOpenWrites(ref), false)
    await open().leaseWrite(ref, one, HOUR_MS)
    await open().leaseWrite(ref, one, 0)
    await open().leaseWrite(ref, other, HOUR_MS)
    assert.equal(await open().hasOpenWrites(newRef()), false)
    await open().endWrite(ref, one)
    assert.equal(await open().hasOpenWrites(ref), true)
    await open().endWrite(ref, other)
    await open().endWrite(ref, other)
    assert.equal(await open().hasOpenWrites(ref), false)
    await open().leaseWrite(ref, one, -1)
    assert.equal(await open().hasOpenWrites(ref), false, 'it is over')
  })

  test('a warehouse that is dropped has nothing, and one whose name begins alike has all', async () => {
    const stays = { ...newRef(), warehouse: `${warehouse}-stays` }
    const ref = { ...newRef(), warehouse: `${warehouse}-goes` }
    for (const made of [ref, stays]) await open().movePointer(made, null, 'x:/1')
    await open().leaseWrite(ref, randomUUID(), HOUR_MS)
    await open().dropWarehouse(ref.warehouse)
    await open().dropWarehouse(ref.warehouse)
    assert.equal(await open().pointer(ref), null)
    assert.equal(await open().hasOpenWrites(ref), false)
    assert.equal(await open().pointer(stays), 'x:/1')
    await open().dropWarehouse(stays.warehouse)
  })
}
