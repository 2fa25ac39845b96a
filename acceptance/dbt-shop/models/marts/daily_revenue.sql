{{ config(materialized='incremental', post_hook="analyze {{ this }}") }}
select order_date as day, count(*) as orders, sum(amount) as revenue, avg(amount) as average_order,
    list(distinct status order by status) as statuses
from {{ ref('orders') }}
group by order_date
