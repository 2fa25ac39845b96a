/** The contract of stores, held against the real Trino over tables that the lake has written. */
import { testServingStore } from '@sluice/conformance'
import plugin from '../../plugins/analytics/trino/index.ts'
import { start } from './conformance.ts'

testServingStore({ plugin, start, level: 'full' })
