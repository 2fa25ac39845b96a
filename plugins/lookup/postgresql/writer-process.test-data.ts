/** A writer in a process of its own, which stops at a fault point and waits there to be killed. */
import { openTenantScope, type Row, type TableSchema } from '@sluice/sdk'
import { changeSet, commitOf, testHost } from '../row-secured-postgresql/test-data.ts'
import lookup from './index.ts'

const { settings, product, point, epoch } = JSON.parse(process.argv[2] ?? '')

const host = testHost(async (name) => {
  if (name !== point) return
  process.stdout.write('there\n')
  await new Promise(() => setInterval(() => {}, 1000))
})

const schema: TableSchema = {
  columns: [
    { name: 'id', type: 'long', nullable: false },
    { name: 'city', type: 'string', nullable: true },
    { name: 'note', type: 'json', nullable: true },
  ],
  primaryKey: ['id'],
}

const scope = openTenantScope('acme')
const rows: Row[] = [[BigInt(epoch), `city ${epoch}`, null]]
const store = await lookup.open(settings, host)
await store.write(
  { scope, domain: 'writes', product, variant: 'clear', schema, config: {} },
  changeSet(schema, epoch === 1 ? 'full' : 'delta', rows),
  commitOf(epoch, epoch === 1 ? null : 1, { fence: BigInt(epoch * 10) }),
)
