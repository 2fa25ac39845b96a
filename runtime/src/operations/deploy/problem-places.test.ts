import assert from 'node:assert/strict'
import { it } from 'node:test'
import { SluiceError } from '@sluice/sdk'
import { PARSING_HERE } from '../../manifest/parsing.ts'
import { withPlaces } from './problem-places.ts'

const TEXTS = {
  inputs: 'kind: Inputs\ninputs:\n  - name: a\n  - name: b\n    where: nope\n',
  compute: 'kind: Compute\ntransform: |\n  SELECT nothing\n',
}

async function placesOf(...errors: readonly { readonly manifest: string; readonly path: string }[]): Promise<unknown> {
  const error = new SluiceError('INVALID_DATA', 'it cannot run', {
    code: 'transform_invalid',
    details: { errors: errors.map((one) => ({ ...one, message: 'no' })), name: 'x' },
  })
  const { code, details = {} } = (await withPlaces(PARSING_HERE, 'acme', error, TEXTS)) as SluiceError
  assert.deepEqual([code, details['name']], ['transform_invalid', 'x'])
  return (details['errors'] as readonly Record<string, unknown>[]).map(({ line, column }) => [line, column])
}

it('gives errors the places of what they name', async () => {
  assert.deepEqual(
    await placesOf({ manifest: 'compute', path: 'transform' }, { manifest: 'inputs', path: 'inputs[1].where' }),
    [
      [2, 12],
      [5, 12],
    ],
  )
})

it('leaves other errors, and those of files that are not there, as they are', async () => {
  const plain = new SluiceError('CONFLICT', 'no', { code: 'version_exists' })
  assert.equal(await withPlaces(PARSING_HERE, 'acme', plain, TEXTS), plain)
  assert.deepEqual(await placesOf({ manifest: 'output', path: 'schema' }, { manifest: 'nothing', path: '' }), [
    [undefined, undefined],
    [undefined, undefined],
  ])
})
