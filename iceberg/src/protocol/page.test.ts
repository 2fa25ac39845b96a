import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pageOf } from './page.ts'

const NAMES = ['delta', 'alpha', 'Éclair', 'charlie', 'bravo']

test('pages hold every name once, whatever their size', () => {
  for (const size of [1, 2, 3, 5, 100]) {
    const seen: string[] = []
    let token: string | null = ''
    while (token !== null) {
      const { names, nextToken }: ReturnType<typeof pageOf> = pageOf(NAMES, token, size)
      assert.ok(names.length <= size)
      seen.push(...names)
      token = nextToken
    }
    assert.deepEqual(seen, NAMES.toSorted(), `size ${size}`)
  }
})

test('a client that knows no pages gets all names', () => {
  const many = Array.from({ length: 3_000 }, (_, at) => `t${at}`)
  assert.equal(pageOf(many, undefined, undefined).names.length, 3_000)
  assert.equal(pageOf(many, undefined, 5_000).names.length, 1_000)
})

test('a name that is gone meanwhile does not stop the pages', () => {
  const first = pageOf(NAMES, '', 2)
  assert.deepEqual(pageOf(['alpha', 'charlie', 'delta'], first.nextToken ?? '', 2).names, ['charlie', 'delta'])
})

test('a token of somebody else’s is refused', () => {
  for (const token of ['x', '!!', 'YWxwaGE']) {
    assert.throws(() => pageOf(NAMES, token, 2), { code: 'catalog_page_token_invalid' })
  }
})
