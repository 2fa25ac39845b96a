import { hostilePostgresql } from './hostile-postgresql.fixture.ts'
import { testHostileSource } from './hostile-source.ts'

testHostileSource(hostilePostgresql)
