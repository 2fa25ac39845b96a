/** The table of ten columns that benches of the lake and of logs measure with: one of most types. */
import type { TableSchema } from '@sluice/sdk'

export const SCHEMA: TableSchema = {
  columns: [
    { name: 'id', type: 'long', nullable: false },
    { name: 'name', type: 'string', nullable: false },
    { name: 'city', type: 'string', nullable: true },
    { name: 'country', type: 'string', nullable: true },
    { name: 'amount', type: 'decimal(12,2)', nullable: true },
    { name: 'quantity', type: 'integer', nullable: true },
    { name: 'ratio', type: 'double', nullable: true },
    { name: 'active', type: 'boolean', nullable: true },
    { name: 'born', type: 'date', nullable: true },
    { name: 'updated_at', type: 'timestamptz', nullable: true },
  ],
  primaryKey: ['id'],
}
